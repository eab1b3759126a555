"""What a task of a profiling run has measured."""

from __future__ import annotations

from .base import Struct
from .placement import Device


class TaskProfile(Struct):
    """Seconds are medians, measured while all tasks of the run did the same, but for ``transfers``."""

    devices: list[Device]
    """Those of the task, the one that the layers were measured on first."""
    layer_seconds: dict[str, list[float]] = {}
    """Forward pass and backward pass of a microbatch, update of a step."""
    step_s: float = 0.0
    """Of a step, beside what it takes in layers."""
    transfers: list[list[float]] = []
    """(bytes, seconds) of sending from one task to another and using it there; measured by the first task alone."""
    all_tasks_s: float = 0.0
    """Of an empty step in which every task takes part; measured by the first task alone."""
