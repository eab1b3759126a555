"""Restarts single tasks while the others continue: workers of asynchronous parameter servers.

The run decides which tasks this applies to (``Run.rejoins``). If a task cannot be restarted alone, the whole gang
counts as lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

import msgspec

from ...errors import DtfError, Unavailable
from ...schema.events import TaskChanged
from ...schema.launch import TaskResult, TaskSpec
from ...schema.run import RunState, TaskState
from ...schema.sizes import duration
from ..planning.launch_plan import PlannedTask
from .active_run import Run
from .gang import ask_hosts, link_of, places
from .host_watch import HostWatch
from .program_transfer import ProgramTransfer
from .restarts import AGAIN_S
from .task_assignment import TaskAssignment

logger = logging.getLogger(__name__)


class Rejoining:
    """Restarts lost tasks one at a time.

    ``rpc(address)`` connects to a host; ``on_change()`` is called when a task has been placed.
    """

    def __init__(
        self, rpc: Callable[[str], Any], assignment: TaskAssignment, watch: HostWatch, on_change: Callable[[], None]
    ) -> None:
        self._rpc = rpc
        self._assignment = assignment
        self._watch = watch
        self._on_change = on_change

    async def follow(self, run: Run, transfer: ProgramTransfer) -> None:
        """Restart those lost tasks of a run that can rejoin, one after the other, until cancelled."""
        while True:
            task, is_back = await self._next(run)
            if is_back:
                run.take_back(task)
                await self._tell_without(run)
            attempt = run.task_info(task).attempt
            try:
                await self._start(run, transfer, task, attempt)
            except DtfError as error:
                if is_back and run.may_go_on_without(task):  # the host is not ready yet, or is lost again
                    run.go_on_without(task, str(error))
                    await self._tell_without(run)
                    await asyncio.sleep(AGAIN_S)
                    continue
                run.cannot_rejoin(task, attempt, f"was not started: {error}")
            except Exception as error:
                logger.exception("%s of run %s could not be restarted", task, run.id)
                run.cannot_rejoin(task, attempt, f"was not started: {type(error).__name__}: {error}")
            else:
                now = run.task_info(task)
                if now.attempt == attempt and now.state is TaskState.PENDING:  # the run is ending or restarting
                    run.task_ended(TaskResult(task=task, attempt=attempt, message="was not started again"))

    async def _next(self, run: Run) -> tuple[str, bool]:
        """Wait for a lost task, or for free resources for a task that the others continue without.

        Returns the task, and whether the others have continued without it.
        """
        while run.without:
            lost = asyncio.ensure_future(run.to_rejoin.get())
            room = asyncio.ensure_future(self._assignment.until(lambda: bool(self._with_room(run))))
            try:
                await asyncio.wait([lost, room], return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in (lost, room):
                    wait.cancel()
                await asyncio.gather(lost, room, return_exceptions=True)
            if not lost.cancelled():
                return lost.result(), False
            if found := self._with_room(run):
                return found, True
        return await run.to_rejoin.get(), False

    def _with_room(self, run: Run) -> str:
        """Return a task that the run continues without and that now fits on a host, or an empty string."""
        if run.info.state is RunState.RUNNING and run.may_restart and not run.work_done.is_set():
            for task in sorted(run.without):
                with contextlib.suppress(Unavailable):
                    self._place(run, task)
                    return task
        return ""

    async def _tell_without(self, run: Run) -> None:
        """Tell the run's hosts which lost tasks the other tasks need not wait for."""
        await self._watch.tell(run.by_host, "dtf_without", run_id=run.id, tasks=sorted(run.without))

    async def _start(self, run: Run, transfer: ProgramTransfer, task: str, attempt: int) -> None:
        """Restart a task. Raises DtfError if the task cannot be started, or if its host is lost in the meantime."""

        def is_over() -> bool:
            """Return whether this attempt is no longer needed."""
            info = run.task_info(task)
            return run.is_stopping or run.decided.is_set() or info.attempt != attempt or info.state.is_final

        began = time.monotonic()
        if is_over():
            return
        try:
            planned = self._place(run, task)
        except Unavailable as error:
            if not run.may_go_on_without(task):
                raise
            run.go_on_without(task, str(error))
            await self._tell_without(run)
            return
        host = planned.host
        has_run = host.address in run.by_host
        run.reseat(planned)
        run.record(TaskChanged(time=time.time(), task=task, attempt=attempt, state=TaskState.PENDING, host=host.name))
        self._on_change()
        endpoints: dict[str, str] = {}
        if not has_run:
            endpoints = await ask_hosts(
                self._rpc,
                run.id,
                [planned],
                "dtf_reserve",
                lambda mine: {"places": places(mine), "ready": True, "attempt": run.gang_attempt},
            )
        spec = _spec_of(run, planned, attempt, endpoints)
        given = await transfer.hand_over(self._rpc, run, [(host.address, host.machine)])
        if is_over():
            return
        pids = await ask_hosts(
            self._rpc,
            run.id,
            [planned],
            "dtf_launch",
            lambda _: {"specs": [msgspec.json.encode(spec)], **given[host.address]},
        )
        if run.task_info(task).attempt == attempt and run.task_info(task).state is TaskState.PENDING:
            run.record(
                TaskChanged(time=time.time(), task=task, attempt=attempt, state=TaskState.STARTING, pid=int(pids[task]))
            )
        if run.is_stopping:  # requested while it was being forked
            await self._watch.tell([host.address], "dtf_stop", run_id=run.id)
        if run.is_active:
            took = duration(time.monotonic() - began)
            run.note(
                "info", f"{task} is restarted: {run.words_of(attempt)}", f"Started within {took}, on {host.name}", task
            )

    def _place(self, run: Run, task: str) -> PlannedTask:
        """Return a place for a task: its previous host if that still exists. Raises Unavailable.

        If the run may continue without the task, another host is used only if it has enough free threads.
        """
        (before,) = [each for each in run.planned if each.task == task]
        if self._assignment.is_there(before.host.address):
            return before
        if run.request.restarts.min_workers is None:
            found = self._assignment.plan(run.info.jobs, run.request)
        else:
            others = {each.task for each in run.planned} - {task}
            found = self._assignment.plan_beside(run.planned, others, crowd=False)
        (planned,) = [each for each in found if each.task == task]
        machines = {each.host.machine for each in run.planned}
        if len(machines) == 1 and planned.host.machine not in machines:
            raise Unavailable(
                "All tasks of the run are on one machine and share its memory. The host with free resources, "
                f"{planned.host.name}, is on another machine"
            )
        return planned


def _spec_of(run: Run, planned: PlannedTask, attempt: int, endpoints: dict[str, str]) -> TaskSpec:
    """Return the spec of the task's new process: its spec in the gang, with the new place.

    ``endpoints`` has the endpoints of newly reserved ports, keyed by port name; empty if none were reserved. No task
    connects to a restarted worker, so the other tasks need not know its new endpoint.
    """
    spec = run.specs[planned.task]
    machines, links = list(spec.machines), list(spec.links)
    machines[planned.rank] = planned.host.machine
    cluster_spec = {job: dict(tasks) for job, tasks in spec.cluster_spec.items()}
    if endpoints:
        cluster_spec[planned.job][planned.index] = endpoints[planned.task]
        links[planned.rank] = endpoints[link_of(planned)]
    return msgspec.structs.replace(
        spec,
        attempt=attempt,
        rejoins=True,
        machines=machines,
        links=links,
        cluster_spec=cluster_spec,
        threads=planned.threads,
        visible_gpus=list(planned.gpus.gpus),
        gpu_memory_bytes=planned.gpus.memory_bytes,
        gpu_growth=planned.gpus.grows,
        lines=run.log.lines_printed().get(planned.task, {}),
    )
