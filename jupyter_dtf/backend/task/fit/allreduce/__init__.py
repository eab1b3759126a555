"""``dtf.AllReduce``: a model on every task, their gradients averaged."""

from __future__ import annotations

from typing import Any

from .....schema.strategy import AllReduce
from ..job import FitJob, FitResult
from .checks import AllReduceChecks

STRATEGY = AllReduce
CHECKS = AllReduceChecks()


def train(job: FitJob, ctx: Any) -> FitResult | None:
    """This task's part of ``job``. Returns a FitResult on the chief, None elsewhere."""
    # Imported here, so that a client can name this function without importing TensorFlow.
    from .training import train as train_here

    return train_here(job, ctx)
