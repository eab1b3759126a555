"""Keeps resources on a cluster alive for a run until the run has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from ..errors import DtfError
from ..schema.run import RunState
from .run import Run


class Held(Protocol):
    """A resource that lives until it is released."""

    def release(self) -> None:
        """Free the resource."""


_held: list[tuple[Run, Held]] = []
_lock = threading.Lock()


def keep(run: Run, things: list[Held]) -> None:
    """Hold resources until the run has ended."""
    if not things:
        return
    with _lock:
        _held.extend((run, thing) for thing in things)

    def told(state: RunState) -> None:
        if state.is_final:
            _release(lambda each: each is run)

    run.on_state(told)  # `let_go` might not be called if no caller waits for the run


def let_go() -> None:
    """Release the resources of runs that have ended."""
    with _lock:
        runs = {run.id: run for run, _ in _held}
    ended = {run_id for run_id, run in runs.items() if _has_ended(run)}  # without holding the lock
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
    except DtfError:  # the run is no longer known
        return True
