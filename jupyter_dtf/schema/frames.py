"""The format of the event pipe from a task to its host. It carries frames, each with a header and a body."""

from __future__ import annotations

import struct

import msgspec

HEADER = struct.Struct("<IB")
"""The length of the body in bytes, and the kind of frame."""
POINT = 0
"""The body is one ``Point``."""
EVENT = 1
"""The body is one encoded event."""
BEAT = 2
"""The body is one ``Beat``, which is dropped if the pipe is full."""
ATTEMPT = 3
"""The body is a ``WORD``: the number of the attempt in which the task continues. Later frames belong to that
attempt."""
ABLE = 4
"""The body is a ``WORD``: 1 if the task can continue in the next attempt of its run, otherwise 0."""
ENDS = 5
"""The body is empty: the program has succeeded and its outcome is saved, so only its process must still end."""
WORD = struct.Struct("<I")
BEAT_S = 0.5
"""The time between two heartbeats, in seconds."""


class Beat(msgspec.Struct, array_like=True):
    """A task's heartbeat."""

    steps: int = 0
    """The number of steps that the task's program has reported."""
    waits: bool = False
    """Whether the task is waiting for other tasks in a collective."""
    saves: bool = False
    """Whether the task is taking or writing a checkpoint."""
    step: float = -1.0
    """The last step that the program has reported."""
    at_s: float = 0.0
    """The time at which ``step`` was reported, by a monotonic clock."""
    waited_s: float = 0.0
    """The total time for which the task had waited for other tasks until ``at_s``, in seconds."""
