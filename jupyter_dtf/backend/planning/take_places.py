"""Trials of a search take places of a cluster, each for itself. Pure: plain values in, plain values out.

A place is what one of the cluster's tasks that compute has when they all run: its threads on a host, and its GPUs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ...schema.cluster import CPU_JOBS
from .gpu_grants import Grant
from .launch_plan import PlannedTask, ranked


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
    threads_per_task: int = 0,
) -> tuple[list[PlannedTask], list[PlannedTask]] | None:
    """The ``tasks`` (job, index) of a run on free places, ``each`` places for every task; and the places that it takes.

    The places of one task are on one host, where the fewest that suffice are left. ``taken`` are the places of others,
    as they were when they were taken: where hosts have come or gone since, a host has as many free as it has more of
    them than are taken on it. None where there is no room. ``threads_per_task`` 0: those of its places.
    """
    free = _free(places, taken)
    planned, mine = [], []
    for rank, (job, index) in enumerate(tasks):
        fitting = [address for address in free if len(free[address]) >= each]
        if not fitting:
            return None
        address = min(fitting, key=lambda one: len(free[one]))
        parts = [free[address].pop(0) for _ in range(each)]
        mine += parts
        threads = threads_per_task or sum(part.threads for part in parts)
        local = 0, 1  # what `ranked` says
        planned.append(PlannedTask(job, index, rank, parts[0].host, threads, *local, _together(parts)))
    return ranked(planned), mine


def _free(places: Sequence[PlannedTask], taken: Iterable[PlannedTask]) -> dict[str, list[PlannedTask]]:
    """The free places of each host. Those with the GPUs of one that is taken are not, and no more than are left."""
    on_host = Counter(place.host.address for place in places)
    devices: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for place in taken:
        on_host[place.host.address] -= 1
        devices[place.host.address, place.gpus.gpus] += 1
    free: dict[str, list[PlannedTask]] = {}
    for place in places:
        address = place.host.address
        if devices[address, place.gpus.gpus] > 0:
            devices[address, place.gpus.gpus] -= 1
        elif len(free.get(address, [])) < on_host[address]:
            free.setdefault(address, []).append(place)
    return free


def _together(parts: Sequence[PlannedTask]) -> Grant:
    """The GPUs of several places as those of one task."""
    gpus = tuple(dict.fromkeys(gpu for part in parts for gpu in part.gpus.gpus))
    caps = [part.gpus.memory_bytes for part in parts if part.gpus.gpus]
    return Grant(gpus, min(caps, default=0), all(part.gpus.grows for part in parts))
