"""``dtf.Pipeline``: each layer on a device of its own choice; one client, whose batches go through in parts."""

from __future__ import annotations

from typing import Any

from .....schema.strategy import Pipeline
from ..job import FitJob, FitResult
from .checks import PipelineChecks

STRATEGY = Pipeline
CHECKS = PipelineChecks()


def train(job: FitJob, ctx: Any) -> FitResult | None:
    """This task's part of ``job``. Returns a FitResult on the chief, None elsewhere."""
    from .training import train as train_client

    return train_client(job, ctx)
