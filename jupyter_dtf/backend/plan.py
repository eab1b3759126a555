"""Which task runs on which host, with how many threads and which GPUs. Pure: plain values in, plain values out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import GangIncomplete
from ..schema.api import HostInfo
from ..schema.cluster import CPU_JOBS
from .devices import NO_GPU, Gpu, GpuRequest, Grant, Seat, grant_gpus

_FIRST_JOBS = ("chief", "worker")  # ranks count these first, in this order
_LAST_JOBS = CPU_JOBS


@dataclass(frozen=True)
class HostSlot:
    """A host that can take tasks. ``machine`` is equal for hosts that share memory."""

    address: str
    name: str
    machine: str
    threads: int
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True)
class PlannedTask:
    """One task and its place. ``local_rank`` and ``local_size`` count the tasks of its machine."""

    job: str
    index: int
    rank: int
    host: HostSlot
    threads: int
    local_rank: int
    local_size: int
    gpus: Grant = NO_GPU

    @property
    def task(self) -> str:
        return f"{self.job}:{self.index}"

    @property
    def devices(self) -> list[str]:
        """TensorFlow's names of its devices, the CPU first."""
        kinds = ["CPU:0", *(f"GPU:{number}" for number in range(len(self.gpus.gpus)))]
        return [f"/job:{self.job}/task:{self.index}/device:{kind}" for kind in kinds]


def slots(hosts: Iterable[HostInfo]) -> list[HostSlot]:
    """What planning needs to know of hosts."""
    return [
        HostSlot(
            host.address, host.name, host.machine, host.threads, tuple(Gpu(g.id, g.memory_bytes) for g in host.gpus)
        )
        for host in hosts
    ]


def ordered_tasks(jobs: Mapping[str, int]) -> list[tuple[str, int]]:
    """(job, index) of every task by rank: the chief, the workers, other jobs by name, ``ps``, ``evaluator``."""
    others = sorted(set(jobs) - {*_FIRST_JOBS, *_LAST_JOBS})
    order = [job for job in (*_FIRST_JOBS, *others, *_LAST_JOBS) if job in jobs]
    return [(job, index) for job in order for index in range(jobs[job])]


def plan(
    jobs: Mapping[str, int], hosts: Sequence[HostSlot], threads_per_task: int = 0, gpus: GpuRequest | None = None
) -> list[PlannedTask]:
    """Spread the tasks evenly over the hosts, neighbours in rank on neighbouring hosts; in order of rank.

    ``threads_per_task`` 0 divides each host's threads among its tasks, at least one each; so does ``gpus`` None with
    the GPUs. Raises GangIncomplete if there is no host, Unavailable if one has not got the GPUs that are asked for.
    """
    tasks = ordered_tasks(jobs)
    if not hosts:
        raise GangIncomplete(f"A run needs a host for its {len(tasks)} tasks. There is none")
    hosts = sorted(hosts, key=lambda host: (host.machine, host.name))
    chosen = [hosts[rank * len(hosts) // len(tasks)] for rank in range(len(tasks))]
    on_host = Counter(host.address for host in chosen)
    on_machine = Counter(host.machine for host in chosen)
    seats = [
        Seat(f"{job}:{index}", job, host.name, host.machine, host.gpus)
        for (job, index), host in zip(tasks, chosen, strict=True)
    ]
    granted = grant_gpus(seats, gpus or GpuRequest())
    seen: Counter[str] = Counter()
    planned = []
    for rank, ((job, index), host) in enumerate(zip(tasks, chosen, strict=True)):
        threads = threads_per_task or max(1, host.threads // on_host[host.address])
        place = seen[host.machine], on_machine[host.machine]
        planned.append(PlannedTask(job, index, rank, host, threads, *place, granted[f"{job}:{index}"]))
        seen[host.machine] += 1
    return planned


def crowding(planned: Sequence[PlannedTask]) -> str:
    """One sentence about hosts with more task threads than threads of their own; empty if there is none."""
    wanted: Counter[HostSlot] = Counter()
    tasks: Counter[HostSlot] = Counter()
    for task in planned:
        wanted[task.host] += task.threads
        tasks[task.host] += 1
    crowded = [host for host in wanted if wanted[host] > host.threads]
    return "; ".join(
        f"{tasks[host]} tasks with {wanted[host]} threads share the {host.threads} of host {host.name}"
        for host in crowded
    )


def without_gpu(planned: Sequence[PlannedTask]) -> str:
    """One sentence about hosts whose GPUs are too few for their tasks, which then use none; empty if there is none."""
    left = [task for task in planned if task.host.gpus and not task.gpus.gpus and task.job not in CPU_JOBS]
    waiting = Counter(task.host for task in left)
    return "; ".join(
        f"{count} tasks on host {host.name} compute on its CPU, for it has {len(host.gpus)} GPU"
        f"{'s' * (len(host.gpus) > 1)}: gpu_memory lets several share one"
        for host, count in waiting.items()
    )
