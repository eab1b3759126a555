"""Assigns the slots of a cluster to the trials of a search. Pure: plain values in, plain values out.

A slot is the share of a host's threads and GPUs that one of the cluster's compute tasks has when all of these tasks
are running.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ...errors import Unavailable
from ...schema.cluster import CPU_JOBS
from ...schema.run import MOST_SHARES
from .gpu_assignment import GpuAssignment, share_of
from .launch_plan import PlannedTask, ranked

_WHOLE = math.lcm(*range(1, MOST_SHARES + 1))
"""The number of units in a slot: every share is a whole number of units, and three thirds are exactly one slot."""


def place_jobs(jobs: Mapping[str, int]) -> dict[str, int]:
    """Return the jobs of a cluster whose tasks count as slots: all except ``ps`` and ``evaluator``."""
    return {job: count for job, count in jobs.items() if job not in CPU_JOBS}


def places_of(planned: Iterable[PlannedTask]) -> list[PlannedTask]:
    """Return the slots of a cluster, given the plan of all of its tasks."""
    return [task for task in planned if task.job not in CPU_JOBS]


def take(
    places: Sequence[PlannedTask],
    taken: Iterable[PlannedTask],
    tasks: Sequence[tuple[str, int]],
    each: int,
    *,
    threads_per_task: int = 0,
    shares: int = 1,
) -> tuple[list[PlannedTask], list[PlannedTask]] | None:
    """Take free ``places`` as ``Free.take`` does. ``taken`` are the slots that are not free."""
    return Free(places, taken).take(tasks, each, threads_per_task=threads_per_task, shares=shares)


class Free:
    """The free slots of a cluster. The cost of taking and releasing does not depend on how many are taken.

    ``taken`` describes slots at the time they were taken: if hosts have joined or left since, the number of free
    slots on a host is its current number minus the number taken on it.
    """

    def __init__(self, places: Sequence[PlannedTask], taken: Iterable[PlannedTask]) -> None:
        self._hosts: dict[str, _Host] = {}
        for place in places:
            self._hosts.setdefault(place.host.address, _Host()).add(place)
        theirs = [place for place in taken if place.host.address in self._hosts]
        moved = [place for place in theirs if not self._hosts[place.host.address].count_where_it_was(place)]
        for place in sorted(moved, key=lambda one: one.share):  # whole slots first, then shares
            self._hosts[place.host.address].count(place)

    def take(
        self, tasks: Sequence[tuple[str, int]], each: int, *, threads_per_task: int = 0, shares: int = 1
    ) -> tuple[list[PlannedTask], list[PlannedTask]] | None:
        """Plan the ``tasks`` (job, index) of a run with ``each`` slots per task. Return the plan and the slots taken.

        The slots of a task are on one host: the one with the fewest free slots that suffice. If ``shares`` is n > 1,
        a task gets 1/n of a slot: of its threads, but at least one, and of its GPU memory. If ``threads_per_task`` is
        0, a task has the threads of its slots. Returns None if too few slots are free. Raises Unavailable for a share
        of a GPU of unknown size.
        """
        planned: list[PlannedTask] = []
        mine: list[PlannedTask] = []
        for rank, (job, index) in enumerate(tasks):
            fitting = [host for host in self._hosts.values() if host.has(each, shares)]
            if not fitting:
                self.give_back(mine)
                return None
            host = min(fitting, key=lambda one: one.free)
            parts = [_part_of(host.take(shares), shares) for _ in range(each)]
            mine += parts
            threads = threads_per_task or sum(part.threads for part in parts)
            local = 0, 1  # `ranked` sets the actual values
            planned.append(PlannedTask(job, index, rank, parts[0].host, threads, *local, _together(parts)))
        return ranked(planned), mine

    def give_back(self, mine: Iterable[PlannedTask]) -> None:
        """Release slots that ``take`` returned, if their hosts still exist."""
        for place in mine:
            if place.host.address in self._hosts:
                self._hosts[place.host.address].give_back(place)


class _Host:
    """The slots of a host, and the free units of each slot (see ``_WHOLE``).

    ``free`` is the number of units that may still be taken on the host. It is less than the sum over the slots if
    units were taken from a slot that no longer exists.
    """

    def __init__(self) -> None:
        self.places: list[PlannedTask] = []
        self.left: list[int] = []
        self.free = 0
        self._at: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        """The indices of the slots that taken shares belong to, keyed by ``_key``. Equal slots may have different
        remainders."""

    def add(self, place: PlannedTask) -> None:
        self.places.append(place)
        self.left.append(_WHOLE)
        self.free += _WHOLE

    def has(self, each: int, shares: int) -> bool:
        size = _WHOLE // shares
        return self.free >= each * size and sum(left >= size for left in self.left) >= each

    def take(self, shares: int) -> PlannedTask:
        """Take a share of the slot with the smallest sufficient remainder, so that whole slots stay free."""
        size = _WHOLE // shares
        at = min((left, number) for number, left in enumerate(self.left) if left >= size)[1]
        self._take(at, _key(self.places[at], shares), size)
        return self.places[at]

    def count_where_it_was(self, taken: PlannedTask) -> bool:
        """Count a slot or a share as taken from the slot of the same name; return False if too little is free."""
        size = _WHOLE // taken.share
        for at in self._alike(taken):
            if self.places[at].task == taken.task and self.left[at] >= size:
                self._take(at, _key(taken, taken.share), size)
                return True
        return False

    def count(self, taken: PlannedTask) -> None:
        """Count a share as taken from a slot with the same GPUs, if any: its own slot has another name now."""
        size = _WHOLE // taken.share
        alike = [(self.left[at], at) for at in self._alike(taken) if self.left[at] >= size]
        self._take(min(alike)[1] if alike else -1, _key(taken, taken.share), size)

    def give_back(self, taken: PlannedTask) -> None:
        """Return a share to the slot that it belongs to."""
        self._change(self._at[_key(taken, taken.share)].pop(), _WHOLE // taken.share)

    def _alike(self, taken: PlannedTask) -> list[int]:
        return [at for at, place in enumerate(self.places) if place.gpus.gpus == taken.gpus.gpus]

    def _take(self, at: int, key: tuple[object, ...], size: int) -> None:
        self._at[key].append(at)
        self._change(at, -size)

    def _change(self, at: int, by: int) -> None:
        self.free += by
        if at >= 0:
            self.left[at] += by


def _key(place: PlannedTask, share: int) -> tuple[object, ...]:
    """Return the key that interchangeable shares of slots have in common."""
    return place.job, place.index, place.gpus.gpus, share


def _part_of(place: PlannedTask, shares: int) -> PlannedTask:
    """Return the share of a slot that one of ``shares`` tasks gets. Raises Unavailable."""
    if shares == 1:
        return place
    memory = 0
    if place.gpus.gpus:
        sizes = [gpu.memory_bytes for gpu in place.host.gpus if gpu.id in place.gpus.gpus]
        capped = place.gpus.memory_bytes
        memory = capped // shares if capped else share_of(min(sizes, default=0), shares)
        if not memory:
            raise Unavailable(
                f"Sharing a GPU requires its memory size, which host {place.host.name} cannot report without NVML "
                "(pip install nvidia-ml-py)"
            )
    gpus = replace(place.gpus, memory_bytes=memory)
    return replace(place, threads=max(1, place.threads // shares), gpus=gpus, share=shares)


def _together(parts: Sequence[PlannedTask]) -> GpuAssignment:
    """Merge the GPUs of several slots into those of one task."""
    gpus = tuple(dict.fromkeys(gpu for part in parts for gpu in part.gpus.gpus))
    caps = [part.gpus.memory_bytes for part in parts if part.gpus.gpus]
    return GpuAssignment(gpus, min(caps, default=0), all(part.gpus.grows for part in parts))
