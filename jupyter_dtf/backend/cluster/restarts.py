"""Restarts gangs that have lost tasks: surviving processes join the next attempt, and the other tasks are forked."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import DtfError, GangIncomplete, Unavailable
from ...schema.launch import ENDED_BEFORE, TaskResult
from ...schema.run import RunState, TaskState
from ...schema.sizes import seconds_
from ..planning.launch_plan import PlannedTask, ranked
from .active_run import Run, predicate
from .host_watch import HostWatch
from .program_transfer import ProgramTransfer
from .run_queue import RunQueue, check_fits
from .task_assignment import TaskAssignment

KILL_GRACE_S = 3.0
"""The time between SIGTERM and SIGKILL."""
HOSTS_S = 300.0
"""How long a restarting run waits until its tasks fit on the hosts."""
AGAIN_S = 2.0
"""The pause before another attempt after a failed restart. By then, the loss of a host has been noticed."""
ASK_S = 3.0
"""How long a host may take to report which tasks can join the next attempt. Without a reply, its tasks restart."""
RETURN_S = 10.0
"""How long a surviving task may take to join the next attempt: it may be in the middle of a step."""
ENDING_S = 60.0
"""How long a task that can no longer join may take to end: it is writing its result."""
_MOST_NAMED = 4


@dataclass(frozen=True)
class Ready:
    """Hosts that have been prepared for a run's next attempt before it begins."""

    endpoints: dict[str, str]
    """The endpoints of the hosts' reserved ports, keyed by port name (``gang.places``)."""
    given: dict[str, Any]
    """The arguments of ``dtf_launch`` that specify the program, keyed by host address."""


Start = Callable[[Run, ProgramTransfer, Collection[str], Ready | None], Awaitable[None]]
"""Starts a run's tasks on their planned hosts: ``start(run, transfer, going_on, ready)``.

The tasks in ``going_on`` join the attempt in their existing processes.
"""


class Restarts:
    """Handles lost tasks for the ``Driver``. ``rpc(address)`` connects to a host."""

    def __init__(
        self,
        rpc: Callable[[str], Any],
        assignment: TaskAssignment,
        watch: HostWatch,
        start: Start,
        on_change: Callable[[], None],
        *,
        queue: RunQueue,
    ) -> None:
        self._rpc = rpc
        self._assignment = assignment
        self._watch = watch
        self._start = start
        self._on_change = on_change
        self._queue = queue

    async def restart(self, run: Run, transfer: ProgramTransfer) -> None:
        """Restart a gang that has lost a task. If the restart fails, the failure counts as the next loss.

        If the run is being stopped, return and let the driver conclude it. Raises Unavailable if the tasks do not fit
        on the hosts.
        """
        lost = run.first_failure
        assert lost is not None
        began = time.monotonic()
        why = f"{lost.task} {predicate(lost.message)}"
        following = run.words_of(run.attempt + 1)
        where = f", on {lost.host}" if lost.host else ""
        going_on = await self.survivors(run)
        if run.is_stopping:
            return
        planned = self.beside(run, going_on)
        said = _who_goes_on(run, going_on, planned)
        # The reason is recorded first, so that even a log that ends here explains why the run restarts.
        run.note("warning", why, f"In {run.attempt_words}{where}. {said}: {following}", lost.task)
        run.to(RunState.RESTARTING, f"{why}: {following} begins")
        self._on_change()
        if going_on and not planned and not self._assignment.has_all_hosts:
            await self._room(run, lambda: bool(self.beside(run, going_on)))
            planned = self.beside(run, going_on)
        if run.is_stopping:
            return
        if planned:
            await self.replace(run, transfer, planned, going_on)
        else:
            await self._start_all(run, transfer, why)
        if not run.decided.is_set() and not run.is_stopping:
            took = seconds_(time.monotonic() - began)
            kept = f". {names_of(sorted(going_on))} continued" if planned else ""
            run.note("info", f"Restarted: {run.attempt_words}", f"{took} after {lost.task} was lost{kept}")

    # -- restarting with survivors ------------------------------------------------------------------------------

    async def survivors(self, run: Run) -> set[str]:
        """Return the tasks whose processes can join the next attempt, according to their hosts."""
        if run.request.kind != "fit":
            return set()

        async def ask(address: str) -> list[str]:
            found: list[str] = await asyncio.wait_for(self._rpc(address).dtf_survivors(run_id=run.id), ASK_S)
            return found

        there = [address for address in run.by_host if self._assignment.is_there(address)]
        answers = await asyncio.gather(*map(ask, there), return_exceptions=True)
        named = {name for answer in answers if not isinstance(answer, BaseException) for name in answer or ()}
        return named & {task.task for task in run.planned}

    def beside(self, run: Run, going_on: Collection[str]) -> list[PlannedTask]:
        """Return places for all tasks, with the tasks in ``going_on`` keeping theirs; empty if the tasks do not fit.

        If the run may shrink, there can be fewer tasks than before.
        """
        if not going_on:
            return []
        least = run.request.restarts.min_workers
        may_shrink = least is not None and len(going_on) >= least
        if not (may_shrink or self._assignment.has_all_hosts):
            return []
        for wanted in (run.gang, run.planned):
            with contextlib.suppress(GangIncomplete):
                return self._assignment.plan_beside(wanted, going_on, crowd=not may_shrink)
        return ranked([task for task in run.planned if task.task in going_on]) if may_shrink else []

    async def replace(
        self,
        run: Run,
        transfer: ProgramTransfer,
        planned: list[PlannedTask],
        going_on: set[str],
        ready: Ready | None = None,
    ) -> None:
        """Begin a new attempt: the tasks in ``going_on`` must join it within RETURN_S; all other tasks are started.

        Args:
            run: The run.
            transfer: The run's program.
            planned: The places of all tasks.
            going_on: The tasks that join in their existing processes.
            ready: The hosts of the other tasks, prepared in advance; given only if no task was lost. In that case,
                there is no time limit for joining, and the run succeeds if all tasks in ``going_on`` succeed instead
                of joining.
        """
        left = set(run.by_host) - {task.host.address for task in planned}
        run.place_again(planned, going_on if ready is not None else ())
        self._on_change()
        await self._watch.tell(left, "dtf_release", run_id=run.id)
        try:
            await self._start(run, transfer, going_on, ready)
        except (Unavailable, OSError) as error:  # another task or host was lost: a loss like any other
            if ready is None or not await self._have_ended_well(run, going_on):
                if not going_on - await self.survivors(run):
                    await self._pause(run)
                not_started(run, f"was not started: {error}")
        if not run.decided.is_set():
            await self._await_return(run, going_on, RETURN_S if ready is None else math.inf)
        is_open = run.info.state is RunState.RESTARTING
        if run.ended_before and is_open and not await self._have_ended_well(run, going_on):
            for name in run.ended_before:
                run.task_ended(TaskResult(task=name, attempt=run.attempt), lost=ENDED_BEFORE)

    async def _await_return(self, run: Run, going_on: Collection[str], return_s: float) -> None:
        """Wait until all tasks are running. A task that does not join in time is killed and counts as lost."""
        waits = [asyncio.ensure_future(event.wait()) for event in (run.is_there, run.decided, run.has_ended_before)]
        timeout = None if math.isinf(return_s) else return_s
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if run.is_there.is_set() or run.decided.is_set() or run.has_ended_before.is_set():
            return
        why = f"has not joined the new attempt within {return_s:g} s"
        for task in run.planned:
            if task.task in going_on and run.task_info(task.task).state in (TaskState.PENDING, TaskState.STARTING):
                await self._watch.tell(
                    [task.host.address],
                    "dtf_end_frozen",
                    run_id=run.id,
                    task=task.task,
                    attempt=run.attempt,
                    why=why,
                )

    async def _have_ended_well(self, run: Run, going_on: Collection[str]) -> bool:
        """Return whether all tasks that should have joined have succeeded instead. If they have, finish the run."""
        until = time.monotonic() + ENDING_S
        while time.monotonic() < until and not run.is_stopping:
            run.has_ended_before.clear()
            left = set(going_on) - set(run.ended_before)
            if not left:
                run.end_as_before()
                return True
            if any(run.task_info(name).state.is_final for name in left) or left & await self.survivors(run):
                return False
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(run.has_ended_before.wait(), AGAIN_S)
        return False

    # -- restarting all tasks -----------------------------------------------------------------------------------

    async def _start_all(self, run: Run, transfer: ProgramTransfer, why: str) -> None:
        await self._watch.tell(run.by_host, "dtf_kill", or_end=run.is_stopping, run_id=run.id, grace_s=KILL_GRACE_S)
        await run.tasks_ended.wait()
        await self._watch.tell(run.by_host, "dtf_release", or_end=False, run_id=run.id)
        try:
            planned = await self.places_again(run)
        except Unavailable as error:
            raise Unavailable(f"{why}, and the run could not be restarted: {error}") from None
        if not run.is_stopping:
            await self.start_placed(run, transfer, planned)

    async def start_placed(self, run: Run, transfer: ProgramTransfer, planned: list[PlannedTask]) -> None:
        """Restart all tasks of a run in the given places. If they do not start, the failure counts as a loss."""
        run.place_again(planned)
        if run.missing:
            begin = names_of([task.task for task in planned])
            title = f"There is no room for {names_of(run.missing)}"
            run.note("warning", title, f"Only {begin} {'is' if len(planned) == 1 else 'are'} restarted")
        self._on_change()
        try:
            await self._start(run, transfer, (), None)
        except (Unavailable, OSError) as error:  # a host was lost in the meantime, or lacks disk space
            await self._watch.tell(run.by_host, "dtf_release", or_end=False, run_id=run.id)
            await self._pause(run)
            not_started(run, f"was not started: {error}")

    async def places_again(self, run: Run) -> list[PlannedTask]:
        """Return places for the tasks of a restarting run, waiting for hosts for HOSTS_S if needed. Raises Unavailable.

        If the run may shrink, there can be fewer tasks than before.
        """

        def is_room() -> bool:
            if run.request.places:
                return self._assignment.has_all_hosts and self._queue.again(run)
            may_shrink = run.request.restarts.min_workers is not None
            try:
                return (may_shrink or self._assignment.has_all_hosts) and bool(self._assignment.plan_again(run))
            except DtfError:
                return False

        await self._room(run, is_room)
        while run.request.places and not run.is_stopping and not is_room():
            asked = run.request
            check_fits(self._assignment, run.info.jobs, asked.places, asked.place_shares)  # raises if it can never fit
            await self._room(run, is_room)
        if run.is_stopping:
            return []
        if not run.request.places:
            return self._assignment.plan_again(run)
        if not is_room():
            raise Unavailable("the cluster has no free slots for it")
        return self._queue.acquired_again(run)

    # -- waiting ------------------------------------------------------------------------------------------------

    async def _room(self, run: Run, is_room: Callable[[], bool]) -> None:
        if not is_room():
            run.note("info", "Waiting for hosts", f"The cluster {run.info.cluster} has {self._assignment.present} left")
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._assignment.until(lambda: run.is_stopping or is_room()), HOSTS_S)

    async def _pause(self, run: Run) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._assignment.until(lambda: run.is_stopping), AGAIN_S)


def not_started(run: Run, why: str) -> None:
    """Mark all tasks of the attempt as lost. A process that should have joined the attempt may still be alive."""
    for task in run.planned:
        run.task_ended(TaskResult(task=task.task, attempt=run.attempt), lost=why)


def _who_goes_on(run: Run, going_on: Collection[str], planned: Sequence[PlannedTask]) -> str:
    names = [task.task for task in run.planned if task.task in going_on]
    if not names:
        return "All tasks are restarted"
    begin = [task.task for task in planned or run.planned if task.task not in going_on]
    without = [task.task for task in run.planned if task.task not in [*going_on, *begin]]
    said = f"{names_of(names)} {'continues' if len(names) == 1 else 'continue'}"
    if without:
        said += f" without {names_of(without)}, for which there is no room"
    if begin:
        said += f"; {names_of(begin)} {'is' if len(begin) == 1 else 'are'} restarted"
    return said


def names_of(tasks: Sequence[str]) -> str:
    """List tasks in words: ``worker:0, worker:1 and worker:2``. If there are many, only count the last ones."""
    if len(tasks) > _MOST_NAMED:
        return f"{', '.join(tasks[: _MOST_NAMED - 1])} and {len(tasks) - _MOST_NAMED + 1} more"
    return " and ".join(filter(None, [", ".join(tasks[:-1]), tasks[-1]]))
