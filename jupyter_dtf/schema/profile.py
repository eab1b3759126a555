"""The measurements of a task of a profiling run."""

from __future__ import annotations

from .base import Struct
from .placement import Device


class TaskProfile(Struct):
    """Seconds are medians, measured while all tasks of the run did the same, except ``transfers``."""

    devices: list[Device]
    """The task's devices, beginning with the one on which the layers were measured."""
    layer_seconds: dict[str, list[float]] = {}
    """Seconds of the forward and the backward pass of a microbatch, and of the update."""
    step_s: float = 0.0
    """Seconds of a step besides its layers."""
    transfers: list[list[float]] = []
    """(bytes, seconds) of sending from one task to another and using it there; measured by the first task only."""
    all_tasks_s: float = 0.0
    """Seconds of an empty step in which every task takes part; measured by the first task only."""
