"""A gang that has gone on without some of its tasks, for which there was no room, grows when there is."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Coroutine
from typing import Any

from ...errors import GangIncomplete
from ...schema.run import RunState
from ...schema.sizes import seconds_
from ..planning.launch_plan import PlannedTask
from .active_run import Run
from .parcel import Parcel
from .restarts import AGAIN_S, Restarts, names_of
from .seating import Seating


class Growing:
    """What a ``Driver`` does while a run goes on with fewer tasks than it was started with.

    ``on_change()`` is called when tasks have got places.
    """

    def __init__(self, seating: Seating, restarts: Restarts, on_change: Callable[[], None]) -> None:
        self._seating = seating
        self._restarts = restarts
        self._on_change = on_change

    async def until_work_done(self, run: Run, parcel: Parcel) -> None:
        """Wait until the work of a run is done, for good or ill. It grows meanwhile, where it can."""
        while run.missing and run.may_restart and not run.work_done.is_set():
            await self._first(run, self._seating.until(lambda: bool(self._planned(run))))
            if not run.work_done.is_set() and not await self._grow(run, parcel):
                # The tasks are in their beginning or their end, or the host is not quite there: they are asked again.
                await self._first(run, asyncio.sleep(AGAIN_S))
        await run.work_done.wait()

    async def _first(self, run: Run, other: Coroutine[Any, Any, None]) -> None:
        """Wait until the work of a run is done, or until ``other`` has ended."""
        waits = [asyncio.ensure_future(run.work_done.wait()), asyncio.ensure_future(other)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    def _planned(self, run: Run) -> list[PlannedTask]:
        """The tasks of a run with as many of those that are missing as there is room for; empty if there is none."""
        going_on = {task.task for task in run.planned}
        chosen, found = set(going_on), []
        for name in run.missing:
            wanted = [task for task in run.gang if task.task in {*chosen, name}]
            with contextlib.suppress(GangIncomplete):
                found = self._seating.plan_beside(wanted, going_on, crowd=False)
                chosen.add(name)
        return found

    async def _grow(self, run: Run, parcel: Parcel) -> bool:
        """Have a run's tasks go over to an attempt in which there are more. Returns whether that was begun."""
        began = time.monotonic()
        going_on = {task.task for task in run.planned}
        survivors = await self._restarts.survivors(run)
        planned = self._planned(run)  # which may be otherwise by now
        is_asked = run.info.state is RunState.RUNNING and not run.work_done.is_set()
        if not (is_asked and planned and survivors == going_on):
            return False
        back = [task.task for task in planned if task.task not in going_on]
        run.unlost += 1
        following, names = run.words_of(run.attempt + 1), names_of(back)
        go = f"{names_of([task.task for task in run.planned])} {'goes' if len(going_on) == 1 else 'go'} on with"
        run.note("info", f"There is room for {names} again", f"{go} {'it' if len(back) == 1 else 'them'}: {following}")
        run.to(RunState.RESTARTING, f"there is room for {names} again: {following} begins")
        self._on_change()
        # Nobody is lost: a task that is in a long step comes when that has ended.
        await self._restarts.replace(run, parcel, planned, going_on, math.inf)
        if not run.decided.is_set() and not run.is_stopping:
            took = seconds_(time.monotonic() - began)
            is_ = "is" if len(back) == 1 else "are"
            run.note("info", f"{names} {is_} back: {run.attempt_words}", f"{took} after there was room")
        return True
