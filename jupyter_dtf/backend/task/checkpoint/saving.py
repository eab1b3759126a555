"""Whether this task takes or writes a checkpoint now, which its signs of life say: it is not to be cut short."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

changed = threading.Event()
"""Set when one begins where none was, and when none is left: the next sign of life need not wait."""
_lock = threading.Lock()
_count = 0


def is_saving() -> bool:
    """Whether one is on its way."""
    return _count > 0


def begins() -> None:
    """One is; ``ends`` says that it is there, or will not be."""
    _add(1)


def ends() -> None:
    """It is no longer, in whatever thread."""
    _add(-1)


@contextlib.contextmanager
def saving() -> Iterator[None]:
    """While its block runs, one is on its way."""
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
