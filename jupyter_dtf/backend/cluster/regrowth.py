"""Grows a gang that has continued without some of its tasks, once hosts have free resources for them again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from ...errors import DtfError, GangIncomplete
from ...schema.run import RunState
from ...schema.sizes import seconds_
from ..planning.launch_plan import PlannedTask
from .active_run import Run
from .host_watch import HostWatch
from .program_transfer import ProgramTransfer
from .restarts import AGAIN_S, Ready, Restarts, names_of
from .task_assignment import TaskAssignment

logger = logging.getLogger(__name__)

MOST_PAUSE_S = 15.0
"""The maximum interval between two attempts to grow, after repeated failures."""


class Regrowth:
    """Handles runs that continue with fewer tasks than they were started with.

    ``make_ready(run, transfer, planned)`` prepares hosts that a run has not used yet. ``move(run)`` ends a run's tasks
    with a checkpoint and restarts them on available hosts. ``on_change()`` is called when tasks have been placed.
    """

    def __init__(
        self,
        assignment: TaskAssignment,
        restarts: Restarts,
        watch: HostWatch,
        make_ready: Callable[[Run, ProgramTransfer, list[PlannedTask]], Coroutine[Any, Any, Ready]],
        *,
        move: Callable[[Run], Awaitable[None]],
        on_change: Callable[[], None],
    ) -> None:
        self._assignment = assignment
        self._restarts = restarts
        self._watch = watch
        self._make_ready = make_ready
        self._move = move
        self._on_change = on_change

    async def until_work_done(self, run: Run, transfer: ProgramTransfer) -> None:
        """Wait until the run's work is done, successfully or not. Meanwhile, let the run grow when possible."""
        pause_s = AGAIN_S
        while run.missing and run.may_restart and not run.work_done.is_set():
            await self._first(run, self._assignment.until(lambda: bool(self._planned(run))))
            if not run.work_done.is_set() and not await self._grow(run, transfer):
                # The tasks are starting or ending, or the host is not ready yet: try again later.
                await self._first(run, asyncio.sleep(pause_s))
                pause_s = min(2 * pause_s, MOST_PAUSE_S)
        await run.work_done.wait()

    async def _first(self, run: Run, other: Coroutine[Any, Any, None]) -> None:
        """Wait until the run's work is done or ``other`` has finished."""
        waits = [asyncio.ensure_future(run.work_done.wait()), asyncio.ensure_future(other)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    def _planned(self, run: Run) -> list[PlannedTask]:
        """Return the places of the run's tasks and of as many missing tasks as fit; empty if no missing task fits."""
        if run.moves:
            with contextlib.suppress(DtfError):
                planned = self._assignment.plan_again(run)
                return planned if len(planned) > len(run.planned) else []
            return []
        going_on = {task.task for task in run.planned}
        chosen, found = set(going_on), []
        for name in run.missing:
            wanted = [task for task in run.gang if task.task in {*chosen, name}]
            with contextlib.suppress(GangIncomplete):
                found = self._assignment.plan_beside(wanted, going_on, crowd=False)
                chosen.add(name)
        return found

    async def _grow(self, run: Run, transfer: ProgramTransfer) -> bool:
        """Move a run to an attempt with more tasks. Returns whether the move was started."""
        began = time.monotonic()
        going_on = {task.task for task in run.planned}
        planned = self._planned(run)
        if planned and run.moves:
            return await self._begin_with_more(run, planned)
        if not planned or await self._restarts.survivors(run) != going_on:
            return False
        # Meanwhile, the tasks continue training. If they finish, there is no reason to grow.
        ready = await self._ready(run, transfer, planned)
        can_go_over = ready is not None and await self._restarts.survivors(run) == going_on
        is_asked = run.info.state is RunState.RUNNING and not run.work_done.is_set()
        are_there = all(self._assignment.is_there(task.host.address) for task in planned)
        if ready is None or not (is_asked and are_there and can_go_over):
            added = {task.host.address for task in planned} - set(run.by_host)
            await self._watch.tell(added, "dtf_release", run_id=run.id)
            return False
        back = [task.task for task in planned if task.task not in going_on]
        run.unlost += 1
        following, names = run.words_of(run.attempt + 1), names_of(back)
        go = f"{names_of([task.task for task in run.planned])} {'continues' if len(going_on) == 1 else 'continue'} with"
        run.note("info", f"There is room for {names} again", f"{go} {'it' if len(back) == 1 else 'them'}: {following}")
        run.to(RunState.RESTARTING, f"there is room for {names} again: {following} begins")
        self._on_change()
        # No task is lost: a task in the middle of a long step joins when the step is done.
        await self._restarts.replace(run, transfer, planned, going_on, ready)
        if not run.decided.is_set() and not run.is_stopping:
            took = seconds_(time.monotonic() - began)
            is_ = "is" if len(back) == 1 else "are"
            run.note("info", f"{names} {is_} back: {run.attempt_words}", f"{took} after resources became free")
        return True

    async def _begin_with_more(self, run: Run, planned: list[PlannedTask]) -> bool:
        """Restart a run from a checkpoint with more tasks, because its processes cannot join a new attempt.

        Returns whether the restart was begun.
        """
        if run.info.state is not RunState.RUNNING:
            return False
        names = names_of([task.task for task in planned if task.task in run.missing])
        run.note("info", f"There is room for {names} again", "All tasks are restarted from a checkpoint of this step")
        await self._move(run)
        return True

    async def _ready(self, run: Run, transfer: ProgramTransfer, planned: list[PlannedTask]) -> Ready | None:
        """Prepare hosts that a run has not used yet. Returns None if this fails, or the run's work is done first."""
        ready = asyncio.ensure_future(self._make_ready(run, transfer, planned))
        done = asyncio.ensure_future(run.work_done.wait())
        try:
            await asyncio.wait([ready, done], return_when=asyncio.FIRST_COMPLETED)
            return ready.result() if ready.done() else None
        except (DtfError, OSError) as error:  # a host has just left again, or lacks disk space
            logger.info("Run %s does not grow yet: %s", run.id, error)
            return None
        finally:
            for wait in (ready, done):
                wait.cancel()
            await asyncio.gather(ready, done, return_exceptions=True)
