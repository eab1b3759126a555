"""Handles hosts on machines that are going away: runs write a checkpoint, then lose their tasks on these hosts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable

from ...errors import Conflict
from ...schema.checkpoint import CheckpointInfo
from ...schema.launch import TaskResult
from ...schema.run import RunState
from ...schema.sizes import seconds_
from .active_run import Run
from .cluster_runs import Runs
from .host_watch import HostWatch

logger = logging.getLogger(__name__)

PATIENCE_S = 60.0
"""How long a run may take to reach the end of a step and write a checkpoint. Most machines give less notice."""
LOOK_S = 0.05
_MARK = "host to go"


class Preemption:
    """Moves runs off hosts that are going away.

    ``move(run)`` ends a run's tasks at the end of a step with a checkpoint, and restarts them elsewhere.
    """

    def __init__(self, runs: Runs, watch: HostWatch, move: Callable[[Run], Awaitable[None]]) -> None:
        self._runs = runs
        self._watch = watch
        self._move = move

    async def leaves(self, address: str) -> None:
        """Move all runs off a host that is about to go away. No new tasks are started there."""
        runs = [run for run in self._runs.active if _left(run, address)]
        for error in await asyncio.gather(*(self._leave(run, address) for run in runs), return_exceptions=True):
            if isinstance(error, Exception):
                logger.error("A run could not leave the host %s cleanly", address, exc_info=error)

    async def _leave(self, run: Run, address: str) -> None:
        if run.is_stopping:
            return  # the run's tasks are ending anyway, with a checkpoint
        info, why = self._watch.infos[address], self._watch.leaving[address]
        title = f"Host {info.name} is going away ({why})"
        saved = ""
        if run.info.goes_on and run.info.state is RunState.RUNNING:
            if run.may_restart and _only_at_its_end(run):
                run.note("warning", title, "Training ends with a checkpoint and continues elsewhere", mark=_MARK)
                with contextlib.suppress(Conflict):  # the run has ended in the meantime, or is already restarting
                    await self._move(run)
                return
            run.note("warning", title, "A checkpoint is written first", mark=_MARK)
            if (checkpoint := await self._checkpoint(run, address)) is not None:
                saved = f", after the checkpoint of step {checkpoint.step}"
            if run.is_stopping or not run.is_active:
                return  # its tasks end on their own, with a checkpoint
        else:
            run.note("warning", title, "This run cannot be saved now", mark=_MARK)
        if not run.may_restart:
            run.note(
                "warning",
                "The run has no restarts left",
                f"It continues on host {info.name} for as long as the host exists",
            )
            return
        await self._end_tasks(run, address, f"has to leave its machine ({why}){saved}")

    async def _checkpoint(self, run: Run, address: str) -> CheckpointInfo | None:
        """Request a checkpoint of this step or a later one and wait for it.

        Returns None if none is written in time, or if the run ends, stops or restarts first.
        """
        attempt, done, began = run.attempt, run.info.progress.done, time.monotonic()
        before = run.info.checkpoint
        await self._watch.tell(run.by_host, "dtf_save", run_id=run.id)
        while time.monotonic() < began + PATIENCE_S:
            if run.is_stopping:
                return None
            found = run.info.checkpoint
            if found is not None and found is not before and found.step >= done:
                text = f"{seconds_(time.monotonic() - began)} after the notice that a host is going away"
                run.note("info", f"Checkpoint of step {found.step} written", text)
                return found
            if run.decided.is_set() or run.attempt != attempt or not run.is_active or not _left(run, address):
                return None
            await asyncio.sleep(LOOK_S)
        run.note("warning", "No checkpoint could be written in time", f"None was complete within {PATIENCE_S:g} s")
        return None

    async def _end_tasks(self, run: Run, address: str, why: str) -> None:
        """Kill a run's tasks on a host. Tasks not forked yet are cancelled; a host that does not respond is killed."""
        infos = [run.task_info(task) for task in _left(run, address)]
        for task, attempt, pid in [(info.task, info.attempt, info.pid) for info in infos]:  # restarts change the infos
            if not pid:
                run.task_ended(TaskResult(task=task, attempt=attempt), lost=why)
                continue
            await self._watch.tell(
                [address], "dtf_end_frozen", or_end=True, run_id=run.id, task=task, attempt=attempt, why=why
            )


def _only_at_its_end(run: Run) -> bool:
    """Return whether a run can write a checkpoint only when its tasks end, as with synchronous parameter servers."""
    return run.info.strategy == "ps" and not run.request.rejoins


def _left(run: Run, address: str) -> list[str]:
    """Return the names of a run's unfinished tasks on a host."""
    return [task.task for task in run.by_host.get(address, ()) if not run.task_info(task.task).state.is_final]
