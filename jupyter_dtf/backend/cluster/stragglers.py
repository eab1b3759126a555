"""Detects stragglers: tasks that the others wait for in every step, because their own part takes longer. No I/O."""

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
"""A task is reported if its own part of a step takes this many times as long as the median of the other tasks."""
LIKE_THE_OTHERS = 1.4
"""At or below this multiple of the median, a reported task counts as fast again."""
COSTS = 0.2
"""The minimum extra time of a straggler over the median of the other tasks, as a fraction of its step."""
WAITING = 0.05
"""If all other tasks wait less than this fraction of a step, as in independent programs, nothing is reported."""
WINDOW_S = 2.0
STEPS = 4
"""A window ends when each task has completed at least this many steps in at least WINDOW_S seconds."""
IN_A_ROW = 3
"""The number of consecutive windows in which a task must be slow to be reported."""


class Word(NamedTuple):
    """A report on a task."""

    level: str
    title: str
    text: str
    task: str
    mark: str


class _Share(NamedTuple):
    """The times of one task in one window, in seconds per step."""

    own_s: float
    step_s: float

    @property
    def waits(self) -> float:
        """The fraction of a step that the task spends waiting for other tasks."""
        return 1 - self.own_s / self.step_s


@dataclass
class _Known:
    """The state of the checks for one attempt of a run."""

    attempt: int
    begins: dict[str, Pace]
    slow: dict[str, int] = field(default_factory=dict)
    """The number of consecutive windows in which a task has been slow or, once reported, not slow; keyed by task."""
    told: set[str] = field(default_factory=set)


class Stragglers:
    """The hosts' last reports on their tasks' progress, keyed by host address."""

    def __init__(self) -> None:
        self._paces: dict[str, dict[str, Pace]] = {}
        self._known: dict[str, _Known] = {}

    def tells(self, address: str, paces: Iterable[Pace]) -> None:
        """Store a host's report on its tasks' progress."""
        self._paces[address] = {each.id: each for each in paces}

    def gone(self, address: str) -> None:
        """Forget a host that has left."""
        self._paces.pop(address, None)

    def forget(self, active: Iterable[str]) -> None:
        """Forget all runs but the active ones."""
        kept = set(active)
        self._known = {run_id: known for run_id, known in self._known.items() if run_id in kept}

    def look(self, run: Run) -> list[Word]:
        """Return new reports on a run. Must be called at intervals."""
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
        """Return the progress of the tasks that are running, keyed by task."""
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
    """Return whether ``now`` has the same tasks as ``begins``, and none of them has restarted its step count."""
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
    parts = f"{seconds_(mine.own_s)} for its own part of a step; the others' median is {seconds_(median)}"
    where = f"{parts}. On host {host}" if host else parts
    if is_told:
        return Word("info", f"{task} is as fast as the others again", where, task, FAST_AGAIN)
    title = f"{task} takes {times:.1f} times as long for its part of a step as the others"
    return Word("warning", f"{title}, on host {host}" if host else title, where, task, SLOW)
