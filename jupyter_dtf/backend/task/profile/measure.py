"""One task's part of a profiling run."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import tensorflow as tf

from ....schema.placement import Device
from ....schema.profile import TaskProfile
from ..model import keras_io
from ..trace.device_names import plain
from . import ProfileJob, link_speeds
from .layers import layer_seconds
from .rates import flops_per_s
from .together import Together


def measure(job: ProfileJob, ctx: Any) -> TaskProfile:
    """Measure devices and layers at the same time as the other tasks, and then, in the chief only, transfers."""
    with closing(Together(ctx)) as together:
        with closing(tf.compat.v1.Session(ctx.server.target)) as session:
            there = [device for device in session.list_devices() if device.device_type in ("CPU", "GPU")]
        there.sort(key=lambda device: (device.device_type != "GPU", device.name))
        names = [plain(device.name) for device in there]
        prefix = f"/job:{ctx.job_name}/task:{ctx.task_index}/"
        own = [name for name in names if name.startswith(prefix)]
        model = keras_io.unpack(job.model)
        together.meet()
        found = TaskProfile(devices=[Device(name=name, flops_per_s=flops_per_s(name, ctx)) for name in own])
        together.meet()
        found.layer_seconds, found.step_s = layer_seconds(model, job, own[0], ctx)
        together.meet()
        if ctx.is_chief:
            firsts = {name.partition("/device")[0]: name for name in reversed(names)}
            found.transfers = link_speeds.transfers(own[0], [name for name in firsts.values() if name != own[0]], ctx)
            found.all_tasks_s = link_speeds.all_tasks(list(firsts.values()), ctx)
        together.meet()
    return found
