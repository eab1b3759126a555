"""The framing of a task's event pipe: a header, then the body. Written by the task, parsed by its host."""

from __future__ import annotations

import struct

import msgspec

HEADER = struct.Struct("<IB")
"""Length of the body in bytes, kind of frame."""
POINT = 0
"""The body is one ``Point``."""
EVENT = 1
"""The body is one encoded event."""
BEAT = 2
"""The body is one ``Beat``, which is dropped if the pipe is full."""
ATTEMPT = 3
"""The body is a ``WORD``: the number of the attempt in which the task has continued, to which later frames belong."""
ABLE = 4
"""The body is a ``WORD``: whether the task can continue in the next attempt of its run, 1 or 0."""
WORD = struct.Struct("<I")
BEAT_S = 0.5
"""Seconds between two heartbeats."""


class Beat(msgspec.Struct, array_like=True):
    """A task's heartbeat."""

    steps: int = 0
    """The number of steps that its program has reported."""
    waits: bool = False
    """Whether it waits for other tasks in a collective."""
    saves: bool = False
    """Whether it takes or writes a checkpoint."""
    step: float = -1.0
    """The last step that its program has reported."""
    at_s: float = 0.0
    """When it reported that, by a monotonic clock."""
    waited_s: float = 0.0
    """Seconds for which it had waited for other tasks until then."""
