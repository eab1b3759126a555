"""Determines how the process of each task of a host ended, from the best available source, and reports every end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from ...schema.launch import ENDED_BEFORE, TaskResult, of_task_id, read_outcome
from ..machine.oom import OomWatch
from ..machine.processes import signal_name, stat_of
from .host_load import HostLoad
from .host_run import HostRun
from .host_task import HostTask
from .warm_keeper import WarmKeeper

logger = logging.getLogger(__name__)

LAST_WORD_S = 1.0
"""The time in seconds that the warm process may take to report how a task ended."""


class TaskExits:
    """Handles the exits of the tasks of ``runs``. ``tell(run id, task, result)`` is called once for each task."""

    def __init__(
        self,
        runs: Mapping[str, HostRun],
        warm: WarmKeeper,
        oom: OomWatch,
        load: HostLoad,
        tell: Callable[[str, str, bytes], None],
    ) -> None:
        self._runs = runs
        self._warm = warm
        self._oom = oom
        self._load = load
        self._tell = tell

    def gone(self, task: HostTask) -> None:
        """Handle the end of a task's process, which the kernel has reported. Its parent, the warm process, reports the
        cause if it responds.
        """
        asyncio.get_running_loop().call_later(LAST_WORD_S, self._unseen, task)

    def _unseen(self, task: HostTask) -> None:
        run = self._runs.get(task.spec.run_id)
        if run is None or run.tasks.get(task.spec.task) is not task or task.id in run.ended:
            return
        if not self._warm.is_silent:  # the warm process's report is on the way
            self.gone(task)
            return
        stat = stat_of(task.pid)
        if stat is None or not stat.has_ended:
            self.exited(task.id, None, f"has ended; the reason is unknown, because {self._warm.name} does not respond")
            return
        with contextlib.suppress(OSError):  # the process has not been reaped, so the id still belongs to its group
            os.killpg(task.pid, signal.SIGKILL)
        self.exited(task.id, stat.status)

    def all_killed(self, why: str) -> None:
        """Report all tasks as killed, because the warm process is gone and the kernel has killed its children."""
        for run in list(self._runs.values()):
            for task in run.alive:
                self.exited(task.id, signal.SIGKILL, why)

    def exited(self, task_id: str, status: int | None, why: str = "") -> None:
        """Report the exit of a task's process. ``status`` has the format of ``waitpid``; None: unknown."""
        run_id, name = of_task_id(task_id)
        run = self._runs.get(run_id)
        task = run.tasks.get(name) if run is not None else None
        if run is None or task is None or task.id != task_id or task_id in run.ended:
            return  # the exit has been reported, or is part of an earlier attempt
        run.ended.add(task_id)
        why = why or task.why_ended
        result = TaskResult(task=name, attempt=task.spec.attempt, message=why)
        try:
            self._find_out(task, result, status)
        except Exception as error:  # the end must be reported even if nothing else is known
            logger.exception("The end of %s could not be read", task_id)
            result.message = why or f"has ended, and its outcome cannot be read: {type(error).__name__}: {error}"
        try:
            data = msgspec.msgpack.encode(result)
        except Exception as error:
            logger.exception("The end of %s could not be encoded", task_id)
            message = f"has ended, and its result cannot be sent: {type(error).__name__}: {error}"
            data = msgspec.msgpack.encode(
                TaskResult(task=name, attempt=task.spec.attempt, exit_code=result.exit_code, message=message)
            )
        self._tell(run_id, name, data)
        if self._warm.is_silent and task.killed and not any(run.alive for run in self._runs.values()):
            self._warm.end()  # only new tasks would need it, and it cannot start them

    def _find_out(self, task: HostTask, result: TaskResult, status: int | None) -> None:
        """Fill in how a task ended, according to the most reliable source."""
        if status is not None and os.WIFSIGNALED(status):
            result.signal = signal_name(os.WTERMSIG(status))
        elif status is not None:
            result.exit_code = os.waitstatus_to_exitcode(status)
        pid, memory = task.pid, task.memory_bytes
        self._load.forget(pid)
        goes_over = task.goes_over
        if result.signal == "SIGKILL" and not (task.killed or result.message) and (why := self._oom.explain(pid)):
            used = f"; it last used {memory / 2**30:.2g} GiB" if memory else ""
            result.message = f"was killed {why}{used}"
        task.finish()
        if goes_over and result.exit_code is not None:  # it never joined the attempt that other tasks have begun
            if not result.message and (outcome := read_outcome(Path(task.spec.task_dir))) is not None and outcome.ok:
                result.outcome = outcome  # the outcome may still count if no task was lost
            result.exit_code, result.message = None, result.message or ENDED_BEFORE
            return
        result.outcome = read_outcome(Path(task.spec.task_dir))
