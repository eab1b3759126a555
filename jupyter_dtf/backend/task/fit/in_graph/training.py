"""Runs a task's part of an in-graph ``fit`` job: the chief is the only client, and the other tasks provide their
devices.
"""

from __future__ import annotations

from typing import Any

from .....errors import InvalidInput
from .....schema.strategy import InGraph
from ...collectives.primitive import Alone
from ..allreduce.training import train_with
from ..gradient_sync import GradientSync
from ..job import FitJob, FitResult
from ..single_client import OneClient
from .checks import InGraphChecks
from .replica_devices import connect, replica_devices
from .step import ReplicaStep


def train(job: FitJob, ctx: Any) -> FitResult | None:
    """Run ``job`` as the client on the chief. On other tasks, run the TensorFlow server until the client ends, and
    return None.

    Raises InvalidInput for unknown devices, and any exception that Keras's own ``fit`` raises.
    """
    assert isinstance(job.strategy, InGraph)
    if not ctx.is_chief:
        ctx.server.join()
        return None
    if ctx.job_name not in InGraph.jobs:
        raise InvalidInput(
            f"`jobs`: the client must be a task of {' or '.join(InGraph.jobs)}, got {ctx.task}", field="jobs"
        )
    devices = replica_devices(job.strategy.devices, connect(ctx), ctx)
    ctx.note("info", f"Replicas: {len(devices)}", ", ".join(devices))

    def step(model: Any, sync: GradientSync, _: bool) -> ReplicaStep:
        if model.jit_compile:
            model.jit_compile = False
            ctx.note("info", "XLA is not used", "jit_compile=True is ignored: a step on several devices cannot use it")
        return ReplicaStep(model, sync, devices)

    return train_with(job, OneClient(ctx), Alone(), InGraphChecks(), make_step=step, replicas=len(devices))
