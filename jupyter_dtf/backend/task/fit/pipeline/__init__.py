"""Implements ``dtf.Pipeline``: each layer runs on a chosen device, and one client splits batches into microbatches."""

from __future__ import annotations

from typing import Any

from .....schema.strategy import Pipeline
from ..job import FitJob, FitResult
from .checks import PipelineChecks

STRATEGY = Pipeline
CHECKS = PipelineChecks()


def train(job: FitJob, ctx: Any) -> FitResult | None:
    """Run this task's part of ``job``. Return a FitResult on the chief, None on the other tasks."""
    from .training import train as train_client

    return train_client(job, ctx)
