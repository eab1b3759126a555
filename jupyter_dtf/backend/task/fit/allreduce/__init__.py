"""Implements ``dtf.AllReduce``: every task has a copy of the model, and gradients are averaged."""

from __future__ import annotations

from typing import Any

from .....schema.strategy import AllReduce
from ..job import FitJob, FitResult
from .checks import AllReduceChecks

STRATEGY = AllReduce
CHECKS = AllReduceChecks()


def train(job: FitJob, ctx: Any) -> FitResult | None:
    """Run this task's part of ``job``. Return a FitResult on the chief, None on the other tasks."""
    # Imported here so that a client can use this function's name without importing TensorFlow.
    from .training import train as train_here

    return train_here(job, ctx)
