"""The framing of a task's event pipe: a header, then the body. Written by the task, cut by its host."""

from __future__ import annotations

import struct

HEADER = struct.Struct("<IB")
"""Length of the body in bytes, kind of frame."""
POINT = 0
"""The body is one ``Point``."""
EVENT = 1
"""The body is one encoded event."""
