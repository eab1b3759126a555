"""Trials of a search take places of a cluster, each for itself. Pure: plain values in, plain values out.

A place is what one of the cluster's tasks that compute has when they all run: its threads on a host, and its GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ...errors import Unavailable
from ...schema.cluster import CPU_JOBS
from .gpu_grants import SHARED, Grant
from .launch_plan import PlannedTask, ranked

_ROUNDING = 1e-6
"""Three thirds of a place are one."""


def place_jobs(jobs: Mapping[str, int]) -> dict[str, int]:
    """The jobs of a cluster whose tasks are places: all but ``ps`` and ``evaluator``."""
    return {job: count for job, count in jobs.items() if job not in CPU_JOBS}


def places_of(planned: Iterable[PlannedTask]) -> list[PlannedTask]:
    """The places of a cluster, all of whose tasks have been planned."""
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
    """The ``tasks`` (job, index) of a run on free places, ``each`` places for every task; and the places that it takes.

    The places of one task are on one host, where the fewest that suffice are left. With ``shares`` a task has that part
    of one place, beside others that have parts of it: its part of the threads, at least one, and of the GPUs' memory.
    ``taken`` are the places of others, as they were when they were taken: where hosts have come or gone since, a host
    has as many free as it has more of them than are taken on it. None where there is no room. ``threads_per_task`` 0:
    those of its places. Raises Unavailable for a share of a GPU whose size is not known.
    """
    hosts = _hosts(places, taken)
    planned, mine = [], []
    for rank, (job, index) in enumerate(tasks):
        fitting = [address for address in hosts if hosts[address].has(each, shares)]
        if not fitting:
            return None
        host = hosts[min(fitting, key=lambda one: hosts[one].free)]
        parts = [_part_of(host.give(shares), shares) for _ in range(each)]
        mine += parts
        threads = threads_per_task or sum(part.threads for part in parts)
        local = 0, 1  # what `ranked` says
        planned.append(PlannedTask(job, index, rank, parts[0].host, threads, *local, _together(parts)))
    return ranked(planned), mine


class _Host:
    """The places of a host, each with how much of it is free; more than ``free`` may not be taken of all together."""

    def __init__(self) -> None:
        self.places: list[PlannedTask] = []
        self.left: list[float] = []
        self.free = 0.0

    def has(self, each: int, shares: int) -> bool:
        size = 1 / shares - _ROUNDING
        return self.free >= each * size and sum(left >= size for left in self.left) >= each

    def give(self, shares: int) -> PlannedTask:
        """One of its places, that has so much left: where the least is, so that whole ones are left for others."""
        size = 1 / shares
        at = min((left, number) for number, left in enumerate(self.left) if left >= size - _ROUNDING)[1]
        self.left[at] -= size
        self.free -= size
        return self.places[at]

    def count(self, taken: PlannedTask) -> None:
        """A place of it is another's, or a share of one: with the same GPUs, if there is one."""
        size = 1 / taken.share
        self.free -= size
        alike = [
            (left, number)
            for number, left in enumerate(self.left)
            if left >= size - _ROUNDING and self.places[number].gpus.gpus == taken.gpus.gpus
        ]
        if alike:
            self.left[min(alike)[1]] -= size


def _hosts(places: Sequence[PlannedTask], taken: Iterable[PlannedTask]) -> dict[str, _Host]:
    hosts: dict[str, _Host] = {}
    for place in places:
        host = hosts.setdefault(place.host.address, _Host())
        host.places.append(place)
        host.left.append(1.0)
        host.free += 1.0
    for place in sorted(taken, key=lambda one: one.share):  # whole ones first, shares into what is left
        if place.host.address in hosts:
            hosts[place.host.address].count(place)
    return hosts


def _part_of(place: PlannedTask, shares: int) -> PlannedTask:
    """What one of ``shares`` tasks has of a place. Raises Unavailable."""
    if shares == 1:
        return place
    memory = 0
    if place.gpus.gpus:
        sizes = [gpu.memory_bytes for gpu in place.host.gpus if gpu.id in place.gpus.gpus]
        whole = place.gpus.memory_bytes or int(min(sizes, default=0) * SHARED)
        if not whole:
            raise Unavailable(
                f"A share of a GPU needs its size, which NVML (nvidia-ml-py) tells. Host {place.host.name} lacks it"
            )
        memory = whole // shares
    gpus = replace(place.gpus, memory_bytes=memory)
    return replace(place, threads=max(1, place.threads // shares), gpus=gpus, share=shares)


def _together(parts: Sequence[PlannedTask]) -> Grant:
    """The GPUs of several places as those of one task."""
    gpus = tuple(dict.fromkeys(gpu for part in parts for gpu in part.gpus.gpus))
    caps = [part.gpus.memory_bytes for part in parts if part.gpus.gpus]
    return Grant(gpus, min(caps, default=0), all(part.gpus.grows for part in parts))
