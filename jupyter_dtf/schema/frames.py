"""The framing of a task's event pipe: a header, then the body. Written by the task, cut by its host."""

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
"""The body is one ``Beat``, which may be left out where the pipe is full."""
ATTEMPT = 3
"""The body is a ``WORD``: what follows is of that attempt, into which the task has gone over."""
ABLE = 4
"""The body is a ``WORD``: whether the task can go over to the next attempt of its run, 1 or 0."""
WORD = struct.Struct("<I")
BEAT_S = 0.5
"""Between two of them."""


class Beat(msgspec.Struct, array_like=True):
    """A task's sign of life."""

    steps: int = 0
    """How often its program has reported a step."""
    waits: bool = False
    """Whether it waits for other tasks in a collective."""
    saves: bool = False
    """Whether it takes or writes a checkpoint."""
    step: float = -1.0
    """The step that its program has reported last."""
    at_s: float = 0.0
    """When it did, by a clock that only goes up."""
    waited_s: float = 0.0
    """Seconds that it had waited for other tasks until then."""
