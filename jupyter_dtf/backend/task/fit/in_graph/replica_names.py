"""Checks the devices of an in-graph ``fit`` run as far as possible before anything starts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .....errors import InvalidInput
from ...trace.device_names import parts


def check_devices(names: Sequence[str], jobs: Mapping[str, int]) -> None:
    """Raise InvalidInput for an invalid name, or a device of an unknown task. Whether a task has the device is checked
    only when the run has started.
    """
    for name in names:
        found = parts(name)
        if "type" not in found and "job" not in found:
            raise InvalidInput(
                f"`devices` must be named as in TensorFlow, /job:worker/task:1/device:GPU:0, got {name!r}",
                field="strategy.devices",
            )
        job, task = found.get("job", "localhost"), found.get("task", "0")
        if job != "localhost" and not (task.isdigit() and int(task) < jobs.get(job, 0)):
            there = ", ".join(
                f"{each}:0 to {each}:{count - 1}" if count > 1 else f"{each}:0" for each, count in jobs.items()
            )
            raise InvalidInput(
                f"`devices` must belong to tasks of the run ({there}), got {name!r}",
                field="strategy.devices",
            )
