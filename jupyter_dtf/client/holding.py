"""What this process holds on a cluster for a run, until the run has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from ..errors import DtfError
from ..schema.run import RunState
from .run import Run


class Held(Protocol):
    """Something that is there as long as somebody holds it."""

    def release(self) -> None:
        """Nobody needs it any more."""


_held: list[tuple[Run, Held]] = []
_lock = threading.Lock()


def keep(run: Run, things: list[Held]) -> None:
    """Hold something until the run has ended."""
    if not things:
        return
    with _lock:
        _held.extend((run, thing) for thing in things)

    def told(state: RunState) -> None:
        if state.is_final:
            _release(lambda each: each is run)

    run.on_state(told)  # nobody may call `let_go` for a run that nobody waits for


def let_go() -> None:
    """Release what runs needed that have ended."""
    with _lock:
        runs = {run.id: run for run, _ in _held}
    ended = {run_id for run_id, run in runs.items() if _has_ended(run)}  # asks, and whoever tells of an end locks
    _release(lambda run: run.id in ended)


def _release(is_over: Callable[[Run], bool]) -> None:
    with _lock:
        over = [thing for run, thing in _held if is_over(run)]
        _held[:] = [each for each in _held if not is_over(each[0])]
    for thing in over:
        thing.release()


def _has_ended(run: Run) -> bool:
    try:
        return run.info.state.is_final
    except DtfError:  # nothing is known of it any more
        return True
