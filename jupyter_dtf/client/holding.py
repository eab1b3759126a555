"""What this process holds on a cluster for a run, until the run has ended."""

from __future__ import annotations

import threading
from typing import Protocol

from ..errors import DtfError
from .run import Run


class Held(Protocol):
    """Something that is there as long as somebody holds it."""

    def release(self) -> None:
        """Nobody needs it any more."""


_held: list[tuple[Run, Held]] = []
_lock = threading.Lock()


def keep(run: Run, things: list[Held]) -> None:
    """Hold something until the run has ended."""
    _held.extend((run, thing) for thing in things)


def let_go() -> None:
    """Release what runs needed that have ended."""
    with _lock:
        ended = [each for each in _held if _has_ended(each[0])]
        for each in ended:
            _held.remove(each)
    for _, thing in ended:
        thing.release()


def _has_ended(run: Run) -> bool:
    try:
        return run.info.state.is_final
    except DtfError:  # nothing is known of it any more
        return True
