"""The measurements that a task makes in a profiling run."""

from __future__ import annotations

from .base import Struct
from .placement import Device


class TaskProfile(Struct):
    """Times measured by one task. All except ``transfers`` are medians, measured while all tasks did the same work."""

    devices: list[Device]
    """The task's devices, beginning with the one on which the layers were measured."""
    layer_seconds: dict[str, list[float]] = {}
    """For each layer, the seconds of its forward pass and backward pass for a microbatch, and of its update."""
    step_s: float = 0.0
    """The time that a step takes in addition to its layers, in seconds."""
    transfers: list[list[float]] = []
    """Pairs ``[bytes, seconds]``: the time that it takes to send data from one task to another and use it there.
    Measured by the first task only."""
    all_tasks_s: float = 0.0
    """The time of an empty step in which all tasks take part, in seconds; measured by the first task only."""
