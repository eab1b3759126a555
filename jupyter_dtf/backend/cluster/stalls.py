"""Detects stalled runs: every task is idle, and one of the tasks that do not wait for others is to blame.

A run is also stalled if one of its tasks has ended and all other tasks wait in collectives.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...schema.launch import Quiet, task_id
from ...schema.run import RunState, TaskState
from ...schema.sizes import duration
from .active_run import Run

LONGEST = 3.0
"""A task is blamed only if it has been idle for this many times the duration of its longest step so far."""
ABANDONED_S = 10.0
"""How long all remaining tasks must have been waiting in collectives after a task has ended."""
STEPS = 2
"""A task is blamed only after this many steps: before its second step, it may be compiling for any length of time."""


class Stalls:
    """The hosts' last reports on their idle tasks, keyed by host address."""

    def __init__(self) -> None:
        self._quiet: dict[str, dict[str, Quiet]] = {}

    def tells(self, address: str, quiet: Iterable[Quiet]) -> None:
        """Store a host's report on its idle tasks."""
        self._quiet[address] = {each.id: each for each in quiet}

    def gone(self, address: str) -> None:
        """Forget a host that has left."""
        self._quiet.pop(address, None)

    def blamed(self, run: Run) -> tuple[str, str, str] | None:
        """Return the task to blame if a run is stalled, else None: ``(host address, task, why as a predicate)``."""
        limit_s = run.request.stalled_after_s
        if run.info.state is not RunState.RUNNING:
            return None
        found = self._idle(run)
        ended = [task.task for task in run.info.tasks if task.state in (TaskState.SUCCEEDED, TaskState.FINISHED)]
        if found and ended and all(quiet.waits and quiet.seconds >= ABANDONED_S for quiet, _, _ in found):
            quiet, address, task = found[0]
            return (
                address,
                task,
                (
                    f"has waited in a collective for {duration(quiet.seconds)}, and the program has ended on "
                    f"{' and '.join(ended)}: all tasks must make the same collective calls in the same order"
                ),
            )
        if limit_s is None or any(quiet.seconds < limit_s for quiet, _, _ in found):
            return None
        able = [each for each in found if not each[0].waits and each[0].steps >= STEPS]
        able = [each for each in able if each[0].seconds > LONGEST * each[0].longest_s]
        if not able:
            return None
        quiet, address, task = max(able, key=lambda each: each[0].seconds)
        others = ", and the others wait" if len(found) > 1 else ""
        return address, task, f"has completed no step for {duration(quiet.seconds)} and uses no CPU time{others}"

    def _idle(self, run: Run) -> list[tuple[Quiet, str, str]]:
        """Return ``(report, host address, task)`` for each running task of a run; empty unless all of them are idle."""
        found = []
        for address, planned in run.by_host.items():
            for task in (each.task for each in planned):
                if run.task_info(task).state is not TaskState.RUNNING:
                    continue  # it is only serving, or has ended
                quiet = self._quiet.get(address, {}).get(task_id(run.id, task, run.task_info(task).attempt))
                if quiet is None:
                    return []
                found.append((quiet, address, task))
        return found
