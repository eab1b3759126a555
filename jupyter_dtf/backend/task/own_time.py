"""The time that this task has spent waiting for others; the rest is its own part.

Every wait in our own collectives adds to it. Waits in TensorFlow's collectives are not known here.
"""

from __future__ import annotations

waited_s = 0.0
"""The seconds that this process has waited for other tasks."""


def waited(seconds: float) -> None:
    """Add time spent waiting for others. Not thread-safe: only one thread at a time is in a collective."""
    global waited_s
    waited_s += seconds
