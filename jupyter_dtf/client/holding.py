"""What this process holds on a cluster for a run, until the run has ended."""

from __future__ import annotations

from typing import Protocol

from .run import Run


class Held(Protocol):
    """Something that is there as long as somebody holds it."""

    def release(self) -> None:
        """Nobody needs it any more."""


_held: list[tuple[Run, Held]] = []


def keep(run: Run, things: list[Held]) -> None:
    """Hold something until the run has ended."""
    _held.extend((run, thing) for thing in things)


def let_go() -> None:
    """Release what runs needed that have ended."""
    ended = [(run, thing) for run, thing in _held if run.info.state.is_final]
    for each in ended:
        _held.remove(each)
        each[1].release()
