"""Implements ``dtf.InGraph``: one client, with one replica of the model per device, applies the mean gradient of the
replicas.
"""

from __future__ import annotations

from typing import Any

from .....schema.strategy import InGraph
from ..job import FitJob, FitResult
from .checks import InGraphChecks

STRATEGY = InGraph
CHECKS = InGraphChecks()


def train(job: FitJob, ctx: Any) -> FitResult | None:
    """Run this task's part of ``job``. Return a FitResult on the chief, None on the other tasks."""
    from .training import train as train_client

    return train_client(job, ctx)
