"""Places tasks on hosts: tracks whether all hosts are present, plans where tasks run, and prepares the hosts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ...errors import Unavailable
from ...schema.api import ClusterPatch
from ...schema.cluster import check_jobs
from ...schema.machines import HostInfo
from ...schema.run import RunRequest
from ...schema.strategy import AllReduce
from ..planning.launch_plan import (
    HostLayout,
    HostSlot,
    PlannedTask,
    crowding,
    match_hosts,
    plan,
    plan_beside,
    plan_fewer,
    slots,
    without_gpu,
)
from ..planning.task_defaults import TaskDefaults
from ..planning.trial_places import places_of
from .active_run import Run
from .gang import ask_hosts, by_job

RESTING = "The cluster has released its hosts because nothing was running"


class TaskAssignment:
    """Knows a cluster's hosts, and assigns tasks to them.

    Args:
        jobs: The number of tasks of each job.
        layout: The design of hosts and tasks.
        hosts: The last info of each host, keyed by address.
        rpc: ``rpc(address)`` connects to a host.
        are_expected: Returns whether more hosts are starting.
        defaults: Settings of tasks that a run does not specify.
        leaving: The addresses of hosts that are about to leave and receive no new tasks.
    """

    def __init__(
        self,
        jobs: dict[str, int],
        layout: HostLayout,
        hosts: Mapping[str, HostInfo],
        rpc: Callable[[str], Any],
        *,
        are_expected: Callable[[], bool],
        defaults: TaskDefaults,
        leaving: Collection[str] = (),
    ) -> None:
        self.jobs = jobs
        self._defaults = defaults
        self._layout = layout
        self._hosts = hosts
        self._rpc = rpc
        self._are_expected = are_expected
        self._leaving = leaving
        self.rests = False
        """Whether most hosts have been released while nothing runs. They are requested again for the next run."""
        self._hosts_changed = asyncio.Condition()
        self._spec: dict[str, dict[int, str]] = {}
        self._spec_lock = asyncio.Lock()
        self._prepared: dict[str, tuple[int, int]] = {}  # the threads and tasks last sent to each host
        self._preparing = asyncio.Lock()
        self._places: list[PlannedTask] = []
        self._places_of: tuple[list[HostSlot], dict[str, int]] = [], {}
        """The hosts and jobs that ``_places`` was computed from."""
        self._is_to_prepare = False

    # -- the hosts ----------------------------------------------------------------------------------------------

    @property
    def has_all_hosts(self) -> bool:
        """Whether all hosts are present: at least one, no fewer than in the design, and none starting or released."""
        return not self.rests and self._count >= max(1, len(self._layout.hosts)) and not self._are_expected()

    @property
    def _count(self) -> int:
        return len(self._hosts) - len(self._leaving)

    @property
    def _slots(self) -> list[HostSlot]:
        return slots(host for host in self._hosts.values() if host.address not in self._leaving)

    def is_there(self, address: str) -> bool:
        """Return whether there is a host at that address that is not about to leave."""
        return address in self._hosts and address not in self._leaving

    @property
    def present(self) -> str:
        """The number of present hosts in words, for messages while hosts are missing."""
        if not self._count:
            return "no host"
        drawn = len(self._layout.hosts)
        return f"{self._count} of {drawn} hosts" if drawn else f"{self._count} of its hosts"

    async def all_hosts(self, or_until: Callable[[], bool] = lambda: False) -> None:
        """Wait until all hosts are present or ``or_until()`` is true. Both are checked again after each ``wake``."""
        await self.until(lambda: self.has_all_hosts or or_until())

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until ``condition()`` is true. It is checked again after each ``wake``."""
        async with self._hosts_changed:
            await self._hosts_changed.wait_for(condition)

    async def wake(self) -> None:
        """Make waiters check their conditions again."""
        async with self._hosts_changed:
            self._hosts_changed.notify_all()

    def drawn_names(self) -> dict[str, str]:
        """Return the names that the design gives to the hosts, keyed by host address; empty while hosts are missing."""
        if not self.has_all_hosts:
            return {}
        matched = match_hosts(self._layout.hosts, self._slots)
        return {slot.address: name for name, slot in matched.items()}

    # -- the tasks ----------------------------------------------------------------------------------------------

    def plan(self, jobs: dict[str, int], request: RunRequest) -> list[PlannedTask]:
        """Return where a run's tasks would be placed. Raises GangIncomplete or Unavailable if something is missing."""
        gpus = self._defaults.gpus_for(request, are_drawn=bool(self._layout.tasks))
        return plan(jobs, self._slots, request.threads_per_task, gpus, self._layout)

    def plan_beside(
        self, planned: Sequence[PlannedTask], going_on: Collection[str], *, crowd: bool
    ) -> list[PlannedTask]:
        """Return places for tasks; those in ``going_on`` keep theirs. Raises GangIncomplete if the rest do not fit.

        ``crowd``: whether the tasks on a host may together use more threads than the host has.
        """
        return plan_beside(planned, going_on, self._slots, crowd=crowd)

    def plan_again(self, run: Run) -> list[PlannedTask]:
        """Return places for a run's tasks, all of which are restarted. Raises the same errors as ``plan``.

        If the run may shrink, there are fewer tasks when hosts are missing and the remaining hosts lack free threads.
        """
        least = run.request.restarts.min_workers
        if least is None:
            return self.plan(run.info.jobs, run.request)
        if self.has_all_hosts and self._count >= len({task.host.address for task in run.first_places}):
            with contextlib.suppress(Unavailable):
                return self.plan(run.info.jobs, run.request)
        return plan_fewer(run.first_places, least, self._slots, run.request.worker_group)

    def places(self) -> list[PlannedTask]:
        """Return all slots that runs can request (``RunRequest.places``): the same list object while nothing changes.

        Raises the same errors as ``plan``.
        """
        of = self._slots, dict(self.jobs)
        if of != self._places_of:
            self._places, self._places_of = places_of(self.plan(self.jobs, RunRequest())), of
        return self._places

    def as_planned(self) -> tuple[list[PlannedTask], list[str]]:
        """Plan a run with default settings. Returns the places of its tasks, and notes for the user.

        There are no places if hosts or devices are missing.
        """
        if not self.has_all_hosts:
            return [], []
        try:
            planned = self.plan(self.jobs, RunRequest())
        except Unavailable as error:  # a device of the design is missing
            return [], [str(error)]
        return planned, [note for note in (crowding(planned), without_gpu(planned)) if note]

    def scale(self, jobs: dict[str, int]) -> None:
        """Set the number of tasks per job for future runs. Raises InvalidInput."""
        ClusterPatch(jobs=jobs)
        self.jobs = check_jobs(jobs)
        self._spec = {}

    # -- preparation of hosts -----------------------------------------------------------------------------------

    async def spec(self) -> dict[str, dict[int, str]]:
        """Return an endpoint for each task of the cluster's jobs, reserved on the hosts until the cluster is scaled.

        Raises:
            Unavailable: While the cluster's hosts are released.
        """
        if self.rests:
            raise Unavailable(f"{RESTING}. The next run requests them again; its spec is in `ctx.cluster_spec`")
        async with self._spec_lock:
            while not self._spec:
                await self.all_hosts()
                jobs = self.jobs
                planned = self.plan(jobs, RunRequest())
                endpoints = await ask_hosts(
                    self._rpc,
                    "cluster",
                    planned,
                    "dtf_reserve",
                    lambda mine: {"places": [task.task for task in mine], "ready": False},
                )
                if self.jobs is jobs:  # not scaled in the meantime
                    self._spec = by_job(planned, endpoints)
            return self._spec

    async def prepare(self, anew: str = "") -> None:
        """Ask the hosts to prepare for the next run, as far as its needs can be foreseen.

        A host is asked only if something has changed for it, so that a thousand hosts that join one by one do not
        cause a million messages. ``anew`` is the address of a host whose warm process has just become ready. It is
        asked even if nothing has changed for it.
        """
        self._prepared.pop(anew, None)
        self._is_to_prepare = True
        if self._preparing.locked():
            return  # the running call checks again
        async with self._preparing:
            while self._is_to_prepare:
                self._is_to_prepare = False
                await self._prepare()

    async def _prepare(self) -> None:
        jobs = {job: count for job, count in self.jobs.items() if job in AllReduce.jobs}
        if not jobs or not self.has_all_hosts:
            return
        by_host: dict[HostSlot, list[PlannedTask]] = {}
        for task in self.plan(jobs, RunRequest(gpus_per_task=0)):
            by_host.setdefault(task.host, []).append(task)
        wanted = {host.address: (tasks[0].threads, min(len(tasks), host.threads)) for host, tasks in by_host.items()}
        new = {address: settings for address, settings in wanted.items() if self._prepared.get(address) != settings}
        self._prepared = {
            **{address: settings for address, settings in self._prepared.items() if address in wanted},
            **new,
        }
        calls = [
            self._rpc(address).dtf_prepare(threads=threads, count=count) for address, (threads, count) in new.items()
        ]
        await asyncio.gather(*calls, return_exceptions=True)  # a host that has just left needs nothing
