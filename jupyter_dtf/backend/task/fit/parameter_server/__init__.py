"""Implements ``dtf.ParameterServer``: the ``ps`` tasks hold the variables and the optimizer; the other tasks compute
gradients.
"""

from __future__ import annotations

from typing import Any

from .....schema.strategy import ParameterServer
from ..job import FitJob, FitResult
from .checks import ServedChecks

STRATEGY = ParameterServer
CHECKS = ServedChecks()


def train(job: FitJob, ctx: Any) -> FitResult | None:
    """Run this task's part of ``job``. Return a FitResult on the chief, None on the other tasks."""
    if ctx.job_name == "ps":
        from .server import Server

        Server(job, ctx).run()
        return None
    from .worker import train as train_worker

    return train_worker(job, ctx)
