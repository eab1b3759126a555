"""A short run on every task of a cluster that measures devices, a model's layers, and transfers between tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....schema.profile import TaskProfile
from ..model.keras_io import PackedModel


@dataclass
class ProfileJob:
    """The request for a profiling run. ``batch_size`` is the number of examples per step, over all microbatches."""

    model: PackedModel
    """The model; its weights are ignored."""
    batch_size: int
    microbatches: int
    input_shapes: Any = None
    """See ``describe``."""


def run(job: ProfileJob, ctx: Any) -> TaskProfile:
    """Run one task's part of the measurements. Raises whatever building and running the model raises."""
    # Imported here, so that a client can refer to this function without importing TensorFlow.
    from .measure import measure

    return measure(job, ctx)
