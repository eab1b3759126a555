"""Detects that tasks have ended: a task's host reports the end, is gone, or no longer lists the task."""

from __future__ import annotations

import logging

import msgspec

from ...schema.launch import TaskResult, task_id
from .active_run import Run
from .cluster_runs import Runs

logger = logging.getLogger(__name__)


class TaskEnds:
    """Reports the end of each task to its run.

    Methods never raise: an exception would end a worker's stream and lose the ends of other tasks.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._missed: dict[str, set[str]] = {}

    def told(self, run_id: str, task: str, result: bytes) -> None:
        """Handle a host's report that a task's process is gone. The host sends it after all of the task's events."""
        run = self._runs.find_active(run_id)
        if run is None:
            return
        try:
            ended = msgspec.msgpack.decode(result, type=TaskResult)
        except Exception as error:
            logger.exception("The end of %s of run %s could not be read", task, run_id)
            ended = TaskResult(task=task, message=f"has ended; the report of its host cannot be read: {error}")
        self._note(run, ended)

    def host_is_gone(self, address: str, lost: str) -> None:
        """Handle the loss of a host and its tasks; ``lost`` is the reason."""
        self._missed.pop(address, None)
        for run in self._runs.active:
            for task in run.by_host.get(address, ()):
                self._note(run, TaskResult(task=task.task), lost=lost)

    def host_has(self, address: str, alive: set[str]) -> None:
        """Record the end of tasks that their host no longer lists as alive, in case the report of an end was lost."""
        missed = set()
        for run in self._runs.active:
            for task in run.by_host.get(address, ()):
                info = run.task_info(task.task)
                if info.state.is_final or not info.pid:
                    continue
                if (key := task_id(run.id, task.task, info.attempt)) not in alive:
                    missed.add(key)
                    if key in self._missed.get(address, ()):  # missing for the second time: no report is on the way
                        logger.error("The end of %s was not reported", key)
                        self._note(run, TaskResult(task=task.task), lost="has ended; its host did not report how")
        self._missed[address] = missed

    def _note(self, run: Run, result: TaskResult, *, lost: str = "") -> None:
        try:
            run.task_ended(result, lost=lost)
        except Exception:
            logger.exception("The end of %s of run %s could not be recorded", result.task, run.id)
