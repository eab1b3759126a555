"""Finds the devices of a run that its client can use, and chooses the devices that get a replica."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from .....errors import InvalidInput
from .....schema.strategy import InGraph


def connect(ctx: Any) -> list[str]:
    """Make the devices of all tasks available in this process. Return the names of all GPUs and CPUs.

    Must be called before TensorFlow has run any operation. Waits until the other tasks' servers are running.
    """
    if ctx.size > 1:
        tf.config.experimental_connect_to_cluster(
            ctx.cluster_spec.as_tf(), job_name=ctx.job_name, task_index=ctx.task_index
        )
    return [device.name for device in tf.config.list_logical_devices() if device.device_type in ("CPU", "GPU")]


def replica_devices(wanted: Sequence[str], there: Sequence[str], ctx: Any) -> list[str]:
    """Return the full names of the replicas' devices: the devices in ``wanted``, or, if it is empty, all GPUs, or all
    CPUs if there are no GPUs.

    A name without job and task refers to the client. Raises InvalidInput, listing the available devices, for unknown
    devices.
    """
    known = {_parts(name, ctx): name for name in there}
    if not wanted:
        training = [parts for parts in known if parts[0] in InGraph.jobs]
        gpus = [parts for parts in training if parts[2] == "GPU"]
        return [known[parts] for parts in gpus or training]
    chosen = []
    for name in wanted:
        parts = _parts(name, ctx)
        if parts not in known:
            names = ", ".join("/job:{}/task:{}/device:{}:{}".format(*each) for each in known)
            raise InvalidInput(
                f"`devices` must be devices of the run ({names}), got {name!r}", field="strategy.devices"
            )
        chosen.append(known[parts])
    return chosen


def _parts(name: str, ctx: Any) -> tuple[str, int, str, int]:
    """Return the parts of a device's name: (job, task, device type, device index)."""
    try:
        spec = tf.DeviceSpec.from_string(name)
    except ValueError as error:
        raise InvalidInput(
            "`devices` must be TensorFlow device names, such as /job:worker/task:1/device:GPU:0, "
            f"got {name!r} ({error})",
            field="strategy.devices",
        ) from None
    local = spec.job in (None, "localhost")
    return (
        ctx.job_name if local else spec.job,
        ctx.task_index if local and not spec.task else spec.task or 0,
        spec.device_type or "CPU",
        spec.device_index or 0,
    )
