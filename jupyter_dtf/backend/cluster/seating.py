"""The cluster's tasks on its hosts: whether these are all there, who would run where, what is kept ready for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ...errors import Unavailable
from ...schema.api import ClusterPatch
from ...schema.cluster import check_jobs
from ...schema.machines import HostInfo
from ...schema.run import RunRequest
from ...schema.strategy import AllReduce
from ..planning.launch_plan import (
    Drawing,
    HostSlot,
    PlannedTask,
    crowding,
    match_hosts,
    plan,
    plan_beside,
    slots,
    without_gpu,
)
from ..planning.take_places import places_of
from ..planning.task_defaults import TaskDefaults
from .gang import ask_hosts, by_job

RESTING = "The cluster has given its hosts back while nothing runs"


class Seating:
    """Where the tasks of ``jobs`` have their places.

    ``hosts`` is what each host has last said, by its address; ``rpc(address)`` reaches one. ``are_expected()``: whether
    there are more on their way. ``leaving``: the addresses of those that take no more tasks. ``defaults`` is what a
    task has of which its run says nothing.
    """

    def __init__(
        self,
        jobs: dict[str, int],
        drawing: Drawing,
        hosts: Mapping[str, HostInfo],
        rpc: Callable[[str], Any],
        *,
        are_expected: Callable[[], bool],
        defaults: TaskDefaults,
        leaving: Collection[str] = (),
    ) -> None:
        self.jobs = jobs
        self._defaults = defaults
        self._drawing = drawing
        self._hosts = hosts
        self._rpc = rpc
        self._are_expected = are_expected
        self._leaving = leaving
        self.rests = False
        """Its hosts have been given back while nothing runs, but for some; they are asked for again for a run."""
        self._hosts_changed = asyncio.Condition()
        self._spec: dict[str, dict[int, str]] = {}
        self._spec_lock = asyncio.Lock()
        self._prepared: dict[str, tuple[int, int]] = {}  # threads and tasks that each host was told of
        self._preparing = asyncio.Lock()
        self._places: list[PlannedTask] = []
        self._places_of: tuple[list[HostSlot], dict[str, int]] = [], {}
        """The hosts and jobs that ``_places`` are of."""
        self._is_to_prepare = False

    # -- the hosts ----------------------------------------------------------------------------------------------

    @property
    def has_all_hosts(self) -> bool:
        """Whether there is a host, where hosts were drawn as many as were, and no more are on their way."""
        return not self.rests and self._count >= max(1, len(self._drawing.hosts)) and not self._are_expected()

    @property
    def _count(self) -> int:
        return len(self._hosts) - len(self._leaving)

    @property
    def _slots(self) -> list[HostSlot]:
        return slots(host for host in self._hosts.values() if host.address not in self._leaving)

    def is_there(self, address: str) -> bool:
        """Whether there is a host at that address, which stays."""
        return address in self._hosts and address not in self._leaving

    @property
    def present(self) -> str:
        """How many hosts there are, in words, while they are not all there."""
        if not self._count:
            return "no host"
        drawn = len(self._drawing.hosts)
        return f"{self._count} of {drawn} hosts" if drawn else f"{self._count} of its hosts"

    async def all_hosts(self, or_until: Callable[[], bool] = lambda: False) -> None:
        """Wait until all hosts are there, or ``or_until()`` holds; that is looked at again after each ``wake``."""
        await self.until(lambda: self.has_all_hosts or or_until())

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until ``condition()`` holds; that is looked at again after each ``wake``."""
        async with self._hosts_changed:
            await self._hosts_changed.wait_for(condition)

    async def wake(self) -> None:
        """Have those who wait look again."""
        async with self._hosts_changed:
            self._hosts_changed.notify_all()

    def drawn_names(self) -> dict[str, str]:
        """What the hosts were called when they were drawn, by their addresses."""
        if not self.has_all_hosts:
            return {}
        matched = match_hosts(self._drawing.hosts, self._slots)
        return {slot.address: name for name, slot in matched.items()}

    # -- the tasks ----------------------------------------------------------------------------------------------

    def plan(self, jobs: dict[str, int], request: RunRequest) -> list[PlannedTask]:
        """Where the tasks of a run would be. Raises GangIncomplete, Unavailable for what is not there."""
        gpus = self._defaults.gpus_for(request, are_drawn=bool(self._drawing.tasks))
        return plan(jobs, self._slots, request.threads_per_task, gpus, self._drawing)

    def plan_beside(
        self, planned: Sequence[PlannedTask], going_on: Collection[str], *, crowd: bool
    ) -> list[PlannedTask]:
        """Where lost tasks would be beside those of ``going_on``, which stay. Raises GangIncomplete without room."""
        return plan_beside(planned, going_on, self._slots, crowd=crowd)

    def places(self) -> list[PlannedTask]:
        """What runs with places of their own (``RunRequest.places``) have them of; the same list while nothing changes.

        Raises as ``plan``.
        """
        of = self._slots, dict(self.jobs)
        if of != self._places_of:
            self._places, self._places_of = places_of(self.plan(self.jobs, RunRequest())), of
        return self._places

    def as_planned(self) -> tuple[list[PlannedTask], list[str]]:
        """Where a run that asks for nothing else would have its tasks, and what a person should know of that."""
        if not self.has_all_hosts:
            return [], []
        try:
            planned = self.plan(self.jobs, RunRequest())
        except Unavailable as error:  # a device that was drawn is not there
            return [], [str(error)]
        return planned, [note for note in (crowding(planned), without_gpu(planned)) if note]

    def scale(self, jobs: dict[str, int]) -> None:
        """New counts of tasks, for the runs to come. Raises InvalidInput."""
        ClusterPatch(jobs=jobs)
        self.jobs = check_jobs(jobs)
        self._spec = {}

    # -- kept ready on the hosts --------------------------------------------------------------------------------

    async def spec(self) -> dict[str, dict[int, str]]:
        """An endpoint for each task of the cluster's jobs, reserved on its hosts until the cluster is scaled.

        Raises Unavailable while the cluster rests.
        """
        if self.rests:
            raise Unavailable(f"{RESTING}. They come again with a run, which `ctx.cluster_spec` is of")
        async with self._spec_lock:
            if not self._spec:
                await self.all_hosts()
                planned = self.plan(self.jobs, RunRequest())
                endpoints = await ask_hosts(
                    self._rpc,
                    "cluster",
                    planned,
                    "dtf_reserve",
                    lambda mine: {"places": [task.task for task in mine], "ready": False},
                )
                self._spec = by_job(planned, endpoints)
            return self._spec

    async def prepare(self, anew: str = "") -> None:
        """Tell the hosts what the next training will need of them, as far as that can be foreseen.

        Each is told once, until it is another thing: a thousand hosts that come one after another are not told a
        thousand times. What the host ``anew`` was told is forgotten: it has begun again.
        """
        self._prepared.pop(anew, None)
        self._is_to_prepare = True
        if self._preparing.locked():
            return  # who prepares looks again
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
        new = {address: wish for address, wish in wanted.items() if self._prepared.get(address) != wish}
        self._prepared = {**{address: wish for address, wish in self._prepared.items() if address in wanted}, **new}
        calls = [
            self._rpc(address).dtf_prepare(threads=threads, count=count) for address, (threads, count) in new.items()
        ]
        await asyncio.gather(*calls, return_exceptions=True)  # one that has just gone needs nothing
