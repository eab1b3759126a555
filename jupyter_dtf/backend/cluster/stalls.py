"""Runs in which nothing happens any more: every task is quiet, and one of those that do not wait is to blame."""

from __future__ import annotations

from collections.abc import Iterable

from ...schema.launch import Quiet, task_id
from ...schema.run import RunState, TaskState
from ...schema.sizes import duration
from .active_run import Run

LONGEST = 3.0
"""So many times as long as the longest step so far it has to have been quiet."""
STEPS = 2
"""So many steps a task has to have made: before the second of them it may compile for as long as it likes."""


class Stalls:
    """What hosts have last said of their quiet tasks, by the addresses of the hosts."""

    def __init__(self) -> None:
        self._quiet: dict[str, dict[str, Quiet]] = {}

    def tells(self, address: str, quiet: Iterable[Quiet]) -> None:
        """A host has told which of its tasks are quiet."""
        self._quiet[address] = {each.id: each for each in quiet}

    def gone(self, address: str) -> None:
        """A host is no more."""
        self._quiet.pop(address, None)

    def blamed(self, run: Run) -> tuple[str, str, str] | None:
        """Whom to blame, if a run is stalled: the address of its host, the task, and why, as a predicate."""
        limit_s = run.request.stalled_after_s
        if run.info.state is not RunState.RUNNING or limit_s is None:
            return None
        found: list[tuple[Quiet, str, str]] = []
        for address, planned in run.by_host.items():
            for task in (each.task for each in planned):
                if run.task_info(task).state is not TaskState.RUNNING:
                    continue  # it serves, or has ended
                quiet = self._quiet.get(address, {}).get(task_id(run.id, task, run.task_info(task).attempt))
                if quiet is None or quiet.seconds < limit_s:
                    return None
                found.append((quiet, address, task))
        able = [each for each in found if not each[0].waits and each[0].steps >= STEPS]
        able = [each for each in able if each[0].seconds > LONGEST * each[0].longest_s]
        if not able:
            return None
        quiet, address, task = max(able, key=lambda each: each[0].seconds)
        others = ", and the others wait" if len(found) > 1 else ""
        return address, task, f"has made no step for {duration(quiet.seconds)} and uses no processor{others}"
