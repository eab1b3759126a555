"""Drives runs from submission to end: launches their tasks as gangs, stops them, and records how they ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from ...errors import DtfError, Unavailable
from ...schema.events import TaskChanged
from ...schema.run import RunState, TaskState
from ...schema.sizes import duration
from ..planning.launch_plan import PlannedTask, crowding, without_gpu
from ..viewer.background import Background
from .active_run import Run, predicate
from .cluster_checks import ClusterChecks
from .gang import ask_hosts, places, task_specs
from .grace_period import is_spent
from .host_versions import HostVersions
from .host_watch import HostWatch
from .pausing import Pausing
from .profiling import Profiling
from .program_transfer import ProgramTransfer, hosts_of
from .regrowth import Regrowth
from .rejoining import Rejoining
from .restarts import KILL_GRACE_S, Ready, Restarts, not_started
from .run_queue import RunQueue
from .task_assignment import RESTING, TaskAssignment

logger = logging.getLogger(__name__)

LOSS_S = 2.0
"""How long to wait, after a gang failed to start, for a report that a task or a host has died."""
END_RUN_S = 8.0
"""How long a closing cluster waits for a run to end."""


class Driver:
    """Drives the runs of ``cluster`` on its hosts.

    ``rpc(address)`` connects to a host; ``on_change()`` is called when tasks have been placed, and when a run is over.
    """

    def __init__(
        self,
        cluster: str,
        rpc: Callable[[str], Any],
        *,
        assignment: TaskAssignment,
        watch: HostWatch,
        versions: HostVersions,
        checkups: ClusterChecks,
        background: Background,
        on_change: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._rpc = rpc
        self._assignment = assignment
        self._watch = watch
        self._versions = versions
        self._checkups = checkups
        self._background = background
        self._on_change = on_change
        self._queue = RunQueue(assignment)
        self._restarts = Restarts(rpc, assignment, watch, self._start_tasks, on_change, queue=self._queue)
        self._regrowth = Regrowth(
            assignment, self._restarts, watch, self._make_ready, move=self.move, on_change=on_change
        )
        self._rejoining = Rejoining(rpc, assignment, watch, on_change)
        self._pausing = Pausing(
            rpc,
            tell_hosts=self._tell_hosts,
            end_tasks=self._kill,
            find_places=self._restarts.places_again,
            start=self._restarts.start_placed,
            on_change=on_change,
        )
        self._profiling = Profiling(self._tell_hosts)

    def begin(self, run: Run, transfer: ProgramTransfer) -> None:
        """Start driving a run. Its program is, or will be, in ``transfer``."""
        self._background.begin(self._drive(run, transfer))

    def program_ended(self, run: Run, task: str, attempt: int) -> None:
        """Note that a task's program has succeeded in ``attempt``.

        The run may release its slots before its processes end. Does not raise.
        """
        if self._queue.program_ended(run, task, attempt):
            self._background.begin(self._assignment.wake())

    # -- life cycle of a run ------------------------------------------------------------------------------------

    async def _drive(self, run: Run, transfer: ProgramTransfer) -> None:
        """Take a run through its whole life cycle."""
        rejoining = asyncio.create_task(self._rejoining.follow(run, transfer))
        try:
            await self._launch(run, transfer)
            while run.is_active:
                await self._regrowth.until_work_done(run, transfer)
                if not run.decided.is_set():
                    await self._tell_hosts(run, "dtf_work_done")
                await run.decided.wait()
                if run.begins_again:
                    await self._restarts.restart(run, transfer)
                elif not (run.is_pausing and await self._pausing.rest(run, transfer)):
                    await self._conclude(run)
        except DtfError as error:
            await self._abandon(run, str(error))
        except Exception as error:
            logger.exception("Run %s could not be driven", run.id)
            await self._abandon(run, f"{type(error).__name__}: {error}")
        finally:
            rejoining.cancel()
            await self._queue.leave(run)
            self._background.begin(asyncio.to_thread(transfer.remove))
            self._background.begin(self._tell_hosts(run, "dtf_release"))
            self._on_change()

    async def _launch(self, run: Run, transfer: ProgramTransfer) -> None:
        rested = self._assignment.rests
        if rested:
            run.note("info", "Waiting for hosts", f"{RESTING}, and requests them again")
        elif not self._assignment.has_all_hosts:
            run.note("info", "Waiting for hosts", f"The cluster {self._cluster} has {self._assignment.present} so far")
        if not self._assignment.has_all_hosts:
            for refusal in self._versions.refusals:
                run.note("warning", "A host cannot be used", refusal)
        await self._assignment.all_hosts(or_until=lambda: not run.is_active)
        if rested and run.is_active:
            run.note("info", "All hosts have joined", f"After {duration(time.time() - run.info.created)}")
        await transfer.arrived()
        if not run.is_active:
            return
        if run.request.places:
            planned = await self._queue.acquire(run)
            if not run.is_active:
                return
        else:
            planned = self._assignment.plan(run.info.jobs, run.request)
        if crowded := crowding(planned):
            run.note("info", "More threads than cores", crowded)
        if run.request.gpus_per_task is None and (left := without_gpu(planned)):
            run.note("warning", "More tasks than GPUs", left)
        run.place(planned)
        run.to(RunState.LAUNCHING)
        self._on_change()
        try:
            await self._start_tasks(run, transfer)
        except (Unavailable, OSError) as error:  # a dying host causes an OSError
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(run.decided.wait(), LOSS_S)
            if run.first_failure is None:  # nothing has died, so another attempt would fail in the same way
                raise
            await self._tell_hosts(run, "dtf_release")
            not_started(run, f"was not started: {error}")

    async def _make_ready(self, run: Run, transfer: ProgramTransfer, planned: list[PlannedTask]) -> Ready:
        """Prepare hosts that the run has not used yet, so that they can join its next attempt.

        Raises DtfError, OSError.
        """
        new = [task for task in planned if task.host.address not in run.by_host]
        endpoints = await ask_hosts(
            self._rpc,
            run.id,
            new,
            "dtf_reserve",
            lambda mine: {"places": places(mine), "ready": True, "attempt": run.attempt + 1},
        )
        await self._checkups.before(run, planned)
        return Ready(endpoints, await transfer.hand_over(self._rpc, run, hosts_of(new)))

    async def _start_tasks(
        self, run: Run, transfer: ProgramTransfer, going_on: Collection[str] = (), ready: Ready | None = None
    ) -> None:
        """Fork a run's tasks on their planned hosts.

        Tasks in ``going_on`` join the attempt in their existing processes. ``ready`` describes hosts that have already
        been prepared. Raises DtfError or OSError unless all tasks start.
        """
        planned = run.planned
        is_ready = ready is not None
        ready = ready or Ready({}, {})

        def again(mine: list[PlannedTask]) -> dict[str, Any]:
            kept = [task.task for task in mine if task.task in going_on]
            return {"attempt": run.attempt, **({"survivors": kept} if kept else {})} if run.attempt else {}

        endpoints = await ask_hosts(
            self._rpc,
            run.id,
            [task for task in planned if task.host.address not in ready.given],
            "dtf_reserve",
            lambda mine: {
                "places": places(mine),
                "ready": not all(task.task in going_on for task in mine),
                **again(mine),
            },
        )
        if not is_ready:
            await self._checkups.before(run, planned)
        specs = run.specs = task_specs(run, self._cluster, {**endpoints, **ready.endpoints}, joins=bool(going_on))
        new = [task for task in planned if task.task not in going_on and task.host.address not in ready.given]
        given = {**ready.given, **await transfer.hand_over(self._rpc, run, hosts_of(new))}
        if run.is_stopping or run.decided.is_set():  # the latter if a host was lost in the meantime
            not_started(run, "was not started")
            return
        pids = await ask_hosts(
            self._rpc,
            run.id,
            planned,
            "dtf_launch",
            lambda mine: {
                "specs": [msgspec.json.encode(specs[task.task]) for task in mine],
                **given.get(mine[0].host.address, {}),
            },
        )
        for name, pid in pids.items():
            if run.task_info(name).state is TaskState.PENDING:
                starting = TaskChanged(
                    time=time.time(), task=name, attempt=run.attempt, state=TaskState.STARTING, pid=int(pid)
                )
                run.record(starting)
        if run.is_stopping:  # requested while the tasks were being forked
            await self._tell_hosts(run, "dtf_stop")

    async def _conclude(self, run: Run) -> None:
        failure = run.first_failure
        if failure is not None:
            await self._kill(run)
            await run.tasks_ended.wait()
            if run.is_stopping and not run.is_pausing:
                run.to(RunState.STOPPED)
            else:
                last = f", in {run.attempt_words}" if run.attempt else ""
                run.to(RunState.FAILED, f"{failure.task} {predicate(failure.message)}{last}")
        elif run.info.state is RunState.STOPPING:
            run.to(RunState.STOPPED)
        else:
            run.to(RunState.SUCCEEDED)

    async def _abandon(self, run: Run, why: str) -> None:
        try:
            await self._kill(run)
        finally:
            if run.is_active:
                run.to(RunState.STOPPED if run.is_stopping else RunState.FAILED, why)

    # -- interruptions ------------------------------------------------------------------------------------------

    async def pause(self, run: Run) -> None:
        """Pause a run: its tasks end with a checkpoint. Raises Conflict, with the reason, if that is not possible."""
        await self._pausing.pause(run)
        await self._assignment.wake()
        self._background.begin(self._pausing.end_late(run))

    async def move(self, run: Run) -> None:
        """End a run's tasks with a checkpoint and restart them on hosts that are then available. Raises Conflict."""
        await self.pause(run)
        run.continued.set()

    async def continue_(self, run: Run) -> None:
        """Continue a run. Raises Conflict if it is not paused."""
        self._pausing.continue_(run)

    async def profile(self, run: Run, steps: int) -> int:
        """Have a run's tasks trace their next steps. Returns the profile's number. Raises InvalidInput, Conflict."""
        return await self._profiling.ask(run, steps)

    async def stop(self, run: Run, *, now: bool = False) -> None:
        """Ask a run's program to stop. Kill it after its grace period; immediately with ``now`` or on a second call."""
        again = run.info.state is RunState.STOPPING
        if run.info.state is RunState.PENDING:
            run.to(RunState.STOPPED, "stopped before it started")
            await self._assignment.wake()
        elif run.info.state is RunState.PAUSED:
            run.to(RunState.STOPPED, f"stopped while it was paused {run.info.message}")
        elif run.info.state in (RunState.LAUNCHING, RunState.RUNNING, RunState.RESTARTING, RunState.PAUSING):
            run.to(RunState.STOPPING)
            await self._assignment.wake()
            await self._tell_hosts(run, "dtf_stop", or_end=True)
        if run.is_active and (now or again):
            await self._kill(run)
        elif run.is_active:
            self._background.begin(self._kill_after(run, run.request.stop_grace_s))

    async def end(self, run: Run) -> None:
        """Kill a run and wait until it has ended. After ``END_RUN_S`` seconds, the run is recorded as ended anyway."""
        try:
            await asyncio.wait_for(self._stop_and_wait(run), END_RUN_S)
        finally:
            if run.is_active:
                state = RunState.STOPPED if run.is_stopping else RunState.FAILED
                run.to(state, "its cluster was closed before all of its tasks had responded")

    async def _stop_and_wait(self, run: Run) -> None:
        await self.stop(run, now=True)
        await run.ended.wait()

    async def _kill(self, run: Run) -> None:
        """Kill a run's tasks and, if the run is being stopped, also hosts that do not respond."""
        await self._tell_hosts(run, "dtf_kill", or_end=run.is_stopping, grace_s=KILL_GRACE_S)

    async def _kill_after(self, run: Run, wait_s: float) -> None:
        if await is_spent(run, wait_s, self._rpc):
            run.note("warning", "The program did not stop on its own", f"It is killed after {wait_s:g} s")
            await self._kill(run)

    async def _tell_hosts(self, run: Run, op: str, *, or_end: bool = False, **message: Any) -> None:
        """Send a message to every host of the run that still exists."""
        await self._watch.tell(run.by_host, op, or_end=or_end, run_id=run.id, **message)
