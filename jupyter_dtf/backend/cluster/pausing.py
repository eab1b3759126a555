"""Pauses runs: their tasks end with a checkpoint and release their devices, until a user continues the runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ...errors import Conflict, Unavailable
from ...schema.run import RunState, check_running
from ..planning.launch_plan import PlannedTask
from .active_run import Run
from .grace_period import is_spent
from .program_transfer import ProgramTransfer

GRACE_S = 60.0
"""How long tasks may take to reach the end of a step before they are killed. If they are killed, the work since the
last checkpoint is repeated.
"""


class Pausing:
    """Pauses and continues runs. The driver passes in the functions that contact, kill and start the runs' tasks."""

    def __init__(
        self,
        rpc: Callable[[str], Any],
        *,
        tell_hosts: Callable[..., Awaitable[None]],
        end_tasks: Callable[[Run], Awaitable[None]],
        find_places: Callable[[Run], Awaitable[list[PlannedTask]]],
        start: Callable[[Run, ProgramTransfer, list[PlannedTask]], Awaitable[None]],
        on_change: Callable[[], None],
    ) -> None:
        self._rpc = rpc
        self._tell_hosts = tell_hosts
        self._end_tasks = end_tasks
        self._find_places = find_places
        self._start = start
        self._on_change = on_change

    async def pause(self, run: Run) -> None:
        """Ask a run's tasks to end with a checkpoint, without waiting. Raises Conflict if the run cannot be paused."""
        if not run.info.goes_on:
            raise Conflict(
                "A run must write checkpoints to be paused, as training does unless checkpoint=False, but "
                f"{run.id} ({_kind(run)}) writes none"
            )
        check_running(run.info, "paused")
        run.continued.clear()
        run.to(RunState.PAUSING)
        await self._tell_hosts(run, "dtf_stop", or_end=True)

    async def end_late(self, run: Run) -> None:
        """Kill the tasks of a run that is being paused, if they do not end on their own in time."""
        if await is_spent(run, GRACE_S, self._rpc) and run.is_pausing:
            run.note("warning", "Training did not reach the end of a step", f"It is killed after {GRACE_S:g} s")
            await self._end_tasks(run)

    def continue_(self, run: Run) -> None:
        """Continue a paused run as soon as its tasks fit on the hosts. Raises Conflict if it is not paused."""
        if run.info.state is not RunState.PAUSED:
            raise Conflict(f"A run must be paused to be continued, but {run.id} is {run.info.state.value}")
        run.continued.set()

    async def rest(self, run: Run, transfer: ProgramTransfer) -> bool:
        """Carry out a pause, from the end of the tasks (or the failure of a task) until the tasks have been restarted.

        Returns:
            Whether the pause was carried out. If not, the run has failed, is done or must stop, and should be
            concluded.
        """
        await self._end_tasks(run)
        await run.tasks_ended.wait()
        if not run.is_pausing or run.has_failed or run.is_done:
            return False
        await self._tell_hosts(run, "dtf_release")
        if not run.is_pausing:
            return False
        run.leave_places()
        run.to(RunState.PAUSED, _where(run))
        while run.is_active:
            self._on_change()
            await run.continued.wait()
            if not run.is_active:  # the run was stopped instead of continued
                break
            run.continued.clear()
            run.to(RunState.RESTARTING, "continues after a pause")
            self._on_change()
            try:
                planned = await self._find_places(run)
            except Unavailable as error:
                run.to(RunState.PAUSED, f"{_where(run)}, because there was no room for it to continue: {error}")
                continue
            if not run.is_stopping:
                run.unlost += 1
                await self._start(run, transfer, planned)
            break
        return True


def _where(run: Run) -> str:
    last = run.info.checkpoint
    return "without a checkpoint: it starts over" if last is None else f"after step {last.step}"


def _kind(run: Run) -> str:
    return f"a {run.info.kind}" if run.info.kind != "fit" else f"training with the strategy {run.info.strategy}"
