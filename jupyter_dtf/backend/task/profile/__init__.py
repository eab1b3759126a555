"""A short run on every task of a cluster that measures devices, a model's layers, and what is between the tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....schema.profile import TaskProfile
from ..model.keras_io import PackedModel


@dataclass
class ProfileJob:
    """``batch_size``: examples of a step, over all its microbatches."""

    model: PackedModel
    """Its weights are not looked at."""
    batch_size: int
    microbatches: int
    input_shapes: Any = None
    """See ``describe``."""


def run(job: ProfileJob, ctx: Any) -> TaskProfile:
    """Measure as one of ``ctx.size`` tasks. Raises what building and running the model raises."""
    # Imported here, so that a client can name this function without importing TensorFlow.
    from .measure import measure

    return measure(job, ctx)
