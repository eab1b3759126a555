"""Tasks for which the others wait in every step, by how long each takes for its own part of one. No I/O."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ...schema.events import FAST_AGAIN, SLOW
from ...schema.launch import Pace, task_id
from ...schema.run import RunState, TaskState
from ...schema.sizes import seconds_
from .active_run import Run

SLOWER = 2.0
"""So many times as long as the others has the own part of who is told of."""
LIKE_THE_OTHERS = 1.4
"""From here on down it is as fast as the others again."""
COSTS = 0.2
"""Of a step: what it takes more than the others."""
WAITING = 0.05
"""Of a step: where the others wait less, as in programs that have nothing to do with each other, nobody is told of."""
WINDOW_S = 2.0
STEPS = 4
"""It is looked at as soon as each task has made so many steps, in so many seconds or more,"""
IN_A_ROW = 3
"""and has to be so in so many of these windows."""


class Word(NamedTuple):
    """What is to be told of a task."""

    level: str
    title: str
    text: str
    task: str
    mark: str


class _Share(NamedTuple):
    """Of one task in one window, in seconds for a step."""

    own_s: float
    step_s: float

    @property
    def waits(self) -> float:
        """The part of a step in which it waits for the others."""
        return 1 - self.own_s / self.step_s


@dataclass
class _Known:
    """Of one run in one attempt."""

    attempt: int
    begins: dict[str, Pace]
    slow: dict[str, int] = field(default_factory=dict)
    """In how many windows in a row a task was slow; of one that was told of, in how many it was not."""
    told: set[str] = field(default_factory=set)


class Stragglers:
    """What hosts have last said of how far their tasks are, by the addresses of the hosts."""

    def __init__(self) -> None:
        self._paces: dict[str, dict[str, Pace]] = {}
        self._known: dict[str, _Known] = {}

    def tells(self, address: str, paces: Iterable[Pace]) -> None:
        """A host has told how far its tasks are."""
        self._paces[address] = {each.id: each for each in paces}

    def gone(self, address: str) -> None:
        """A host is no more."""
        self._paces.pop(address, None)

    def forget(self, active: Iterable[str]) -> None:
        """Only these runs go on."""
        kept = set(active)
        self._known = {run_id: known for run_id, known in self._known.items() if run_id in kept}

    def look(self, run: Run) -> list[Word]:
        """What is new of a run. To be called again and again."""
        now = self._now(run)
        known = self._known.get(run.id)
        if known is None or known.attempt != run.attempt or not _follow(known.begins, now):
            told = known.told if known is not None and known.attempt == run.attempt else set()
            self._known[run.id] = _Known(run.attempt, now, told=told & now.keys())
            return []
        if len(now) < 2 or not all(_is_long(known.begins[task], pace) for task, pace in now.items()):
            return []
        shares = {task: _share(known.begins[task], pace) for task, pace in now.items()}
        known.begins = now
        return [word for task in shares if (word := _word(run, known, task, shares)) is not None]

    def _now(self, run: Run) -> dict[str, Pace]:
        """How far the tasks are that make steps."""
        found = {}
        if run.info.state is RunState.RUNNING:
            for address, planned in run.by_host.items():
                paces = self._paces.get(address, {})
                for task in (each.task for each in planned):
                    pace = paces.get(task_id(run.id, task, run.task_info(task).attempt))
                    if pace is not None and run.task_info(task).state is TaskState.RUNNING:
                        found[task] = pace
        return found


def _follow(begins: dict[str, Pace], now: dict[str, Pace]) -> bool:
    """Whether these are the same tasks, and none has begun to count anew."""
    return begins.keys() == now.keys() and all(now[task].step >= begin.step for task, begin in begins.items())


def _is_long(begin: Pace, end: Pace) -> bool:
    return end.step - begin.step >= STEPS and end.at_s - begin.at_s >= WINDOW_S


def _share(begin: Pace, end: Pace) -> _Share:
    steps, seconds = end.step - begin.step, end.at_s - begin.at_s
    own = max(seconds - (end.waited_s - begin.waited_s), 1e-6)
    return _Share(own / steps, seconds / steps)


def _word(run: Run, known: _Known, task: str, shares: dict[str, _Share]) -> Word | None:
    mine = shares[task]
    others = [share for name, share in shares.items() if name != task]
    median = statistics.median(share.own_s for share in others)
    times = mine.own_s / median
    is_told = task in known.told
    if is_told:
        changes = times <= LIKE_THE_OTHERS
    else:
        is_costly = mine.own_s - median >= COSTS * mine.step_s
        changes = times >= SLOWER and is_costly and max(share.waits for share in others) >= WAITING
    known.slow[task] = known.slow.get(task, 0) + 1 if changes else 0
    if known.slow[task] < IN_A_ROW:
        return None
    known.slow[task] = 0
    known.told ^= {task}
    host = run.task_info(task).host
    parts = f"{seconds_(mine.own_s)} of its own in a step; the others' median is {seconds_(median)}"
    where = f"{parts}. On host {host}" if host else parts
    if is_told:
        return Word("info", f"{task} is as fast as the others again", where, task, FAST_AGAIN)
    title = f"{task} takes {times:.1f} times as long for its part of a step as the others"
    return Word("warning", f"{title}, on host {host}" if host else title, where, task, SLOW)
