"""Profiles running runs: has all of a run's tasks trace a requested number of steps."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from ...errors import Conflict
from ...schema.events import POINTS, Points, Profiled, decode_event, decode_points
from ...schema.launch import ProfileOrder
from ...schema.run import RunInfo, TaskState, check_running
from ...schema.strategy import Strategy, strategy_named
from ...schema.trace import check_count
from .active_run import Run
from .profile_state import Profile

AHEAD_S = 1.5
"""How far ahead the first traced step of a training run is, so that all tasks have received the request by then."""
MOST_LOOKED_AT = 20
"""How many of the most recent events with points are used to determine the speed of a training run."""
_STEP_SECONDS = "step_seconds"
TOGETHER = 3
"""The first traced step is at least this many steps ahead: the current one, one more, and one to prepare recording."""
HELD_S = 5.0
"""How long a requested profile counts as under way even if no task has begun it."""


class Profiling:
    """Requests profiles from the tasks of runs. ``tell_hosts`` sends a message to a run's hosts."""

    def __init__(self, tell_hosts: Callable[..., Awaitable[None]]) -> None:
        self._tell_hosts = tell_hosts

    async def ask(self, run: Run, steps: int) -> int:
        """Have a run's tasks trace their next steps. Returns the number of the profile within the run.

        Raises InvalidInput if the number of steps is invalid, and Conflict if the run cannot be profiled now.
        """
        check_count(steps)
        self._check(run)
        before = run.profile
        number = before.number + 1 if before is not None else 1
        tasks = {task.task: task.attempt for task in run.info.tasks if not _is_over(task.state)}
        run.profile = Profile(number, steps, tasks, all_of_them=_all_trace(run.info))
        run.record(Profiled(time=time.time(), attempt=run.attempt, number=number, steps=steps))
        strategy = _strategy(run.info)
        first = _first(run, steps) if strategy is not None and strategy.counts_steps_together else 0
        order = msgspec.json.encode(ProfileOrder(number=number, steps=steps, first=first))
        await self._tell_hosts(run, "dtf_profile", order=order)
        return number

    def _check(self, run: Run) -> None:
        check_running(run.info, "profiled")
        if run.only_serves:
            raise Conflict(f"The run {run.id} cannot be profiled: its tasks only serve sessions and execute no steps")
        known = run.profile
        if known is not None and not known.is_over and (known.has_begun or time.monotonic() - known.asked_s < HELD_S):
            raise Conflict(f"The run {run.id} is already being profiled: {known.whom()}")


def _all_trace(info: RunInfo) -> bool:
    """Return whether every task executes steps of its own. Otherwise, only the tasks that report steps do."""
    strategy = _strategy(info)
    return strategy is not None and strategy.every_task_steps


def _strategy(info: RunInfo) -> type[Strategy] | None:
    """Return the class of a training run's strategy; None for other runs."""
    return strategy_named(info.strategy) if info.kind == "fit" else None


def _is_over(state: TaskState) -> bool:
    return state.is_final or state is TaskState.FINISHED


def _first(run: Run, steps: int) -> int:
    """Return the first step to trace: one that no task has begun when it receives the request.

    If possible, it is early enough for all ``steps`` to fit before the end of training. This relies on the tasks being
    within one step of each other.
    """
    progress = run.info.progress
    known, seconds = _pace(run.log)
    done = max(progress.done, known)
    ahead = done + TOGETHER + (math.ceil(AHEAD_S / seconds) if seconds > 0 else 0)
    if not progress.total:
        return ahead
    return max(min(ahead, progress.total - steps + 1), done + TOGETHER)


def _pace(log: Sequence[bytes]) -> tuple[int, float]:
    """Return a training run's last reported step, and the seconds of its shortest recent step; each 0 if unknown."""
    step, seconds, looked_at = 0, math.inf, 0
    for data in reversed(log):
        if not data.startswith(POINTS, 1):
            continue
        event = decode_event(data)
        for point in decode_points(event) if isinstance(event, Points) else ():
            if _STEP_SECONDS in point.values:
                step, seconds = max(step, int(point.step)), min(seconds, point.values[_STEP_SECONDS])
        looked_at += 1
        if looked_at == MOST_LOOKED_AT:
            break
    return step, seconds if math.isfinite(seconds) else 0.0
