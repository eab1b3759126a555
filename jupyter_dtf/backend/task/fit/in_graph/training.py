"""The tasks' parts of an in-graph ``fit``: the chief is the one client, the others lend it their devices."""

from __future__ import annotations

from typing import Any

from .....errors import InvalidInput
from .....schema.strategy import InGraph
from ...collectives.contract import Alone
from ..allreduce.training import train_with
from ..gradient_sync import GradientSync
from ..job import FitJob, FitResult
from ..one_client import OneClient
from .checks import TowerChecks
from .step import TowerStep
from .tower_devices import connect, tower_devices


def train(job: FitJob, ctx: Any) -> FitResult | None:
    """Run ``job`` as the client on the chief; elsewhere serve until the client has ended, and return None.

    Raises InvalidInput for devices that are not there, and what Keras's own ``fit`` raises.
    """
    assert isinstance(job.strategy, InGraph)
    if not ctx.is_chief:
        ctx.server.join()
        return None
    if ctx.job_name not in InGraph.jobs:
        raise InvalidInput(f"The client is a task of {' or '.join(InGraph.jobs)}. Received: {ctx.task}", field="jobs")
    devices = tower_devices(job.strategy.devices, connect(ctx), ctx)
    ctx.note("info", f"Towers: {len(devices)}", ", ".join(devices))

    def step(model: Any, sync: GradientSync, _: bool) -> TowerStep:
        if model.jit_compile:
            model.jit_compile = False
            ctx.note("info", "XLA is not used", "jit_compile=True is set aside: a step of several devices has none")
        return TowerStep(model, sync, devices)

    return train_with(job, OneClient(ctx), Alone(), TowerChecks(), make_step=step, replicas=len(devices))
