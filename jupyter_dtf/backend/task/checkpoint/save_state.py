"""Records whether this task is preparing or writing a checkpoint. Heartbeats report it, so that checkpoints are not cut
short.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

changed = threading.Event()
"""Set when ``is_saving`` changes, so that the next heartbeat is sent immediately."""
_lock = threading.Lock()
_count = 0


def is_saving() -> bool:
    """Return whether a checkpoint is being prepared or written."""
    return _count > 0


def begins() -> None:
    """Record the beginning of a checkpoint. ``ends`` must be called when it is complete or has failed."""
    _add(1)


def ends() -> None:
    """Record the end of a checkpoint. May be called in any thread."""
    _add(-1)


@contextlib.contextmanager
def saving() -> Iterator[None]:
    """Return a context manager that counts its block as the preparation of a checkpoint."""
    begins()
    try:
        yield
    finally:
        ends()


def _add(one: int) -> None:
    global _count
    with _lock:
        was = _count
        _count += one
    if not was or was + one == 0:
        changed.set()
