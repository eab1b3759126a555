"""How much of this task's time is its own part: all but what it has waited for others.

Every wait in a collective of ours adds to it. What TensorFlow's own collectives wait is not known here.
"""

from __future__ import annotations

waited_s = 0.0
"""Seconds that this process has waited for other tasks."""


def waited(seconds: float) -> None:
    """This task has waited for others for so long. One thread at a time is in a collective."""
    global waited_s
    waited_s += seconds
