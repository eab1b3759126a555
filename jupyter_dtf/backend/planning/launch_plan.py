"""Plans which host each task runs on, and how many threads and GPUs it gets. Pure: plain values in and out."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from ...errors import GangIncomplete
from ...schema.api import TaskLocation
from ...schema.cluster import CPU_JOBS, FIRST_JOBS
from ...schema.hosts import HostDesign, TaskPlace
from ...schema.machines import HostInfo
from .gpu_assignment import NO_GPU, ChosenDevice, Gpu, GpuAssignment, GpuRequest, HostedTask, assign_gpus

MOST_CONFIGS = 100
"""The maximum number of TF_CONFIGs. Each has the endpoints of all tasks, so thousands would take gigabytes."""


@dataclass(frozen=True)
class HostSlot:
    """A host that can run tasks. Hosts that share memory have the same ``machine``."""

    address: str
    name: str
    machine: str
    threads: int
    gpus: tuple[Gpu, ...] = ()
    slots: int = 1
    """The weight of the host: tasks are spread over the slots of all hosts."""


@dataclass(frozen=True)
class HostLayout:
    """The hosts of a design, and the assignment of tasks to them."""

    hosts: Sequence[HostDesign] = ()
    tasks: Sequence[TaskPlace] = ()


NO_LAYOUT = HostLayout()


@dataclass(frozen=True)
class PlannedTask:
    """One task and its place. ``local_rank`` and ``local_size`` count the tasks on its machine."""

    job: str
    index: int
    rank: int
    host: HostSlot
    threads: int
    local_rank: int
    local_size: int
    gpus: GpuAssignment = NO_GPU
    was_put: bool = False
    """Whether the user assigned the task to its place."""
    share: int = 1
    """The number of trials that share the task's place; 1 if it is not shared."""

    @property
    def task(self) -> str:
        return f"{self.job}:{self.index}"

    @property
    def devices(self) -> list[str]:
        """TensorFlow's names of the task's devices, the CPU first."""
        return devices_of(self.job, self.index, len(self.gpus.gpus))

    @property
    def location(self) -> TaskLocation:
        """The task's host, GPUs and memory limit, as shown to users."""
        numbers = [[gpu.id for gpu in self.host.gpus].index(gpu) for gpu in self.gpus.gpus]
        return TaskLocation(task=self.task, host=self.host.name, gpus=numbers, memory_bytes=self.gpus.memory_bytes)


def devices_of(job: str, index: int, gpus: int) -> list[str]:
    """Return TensorFlow's names of the devices of a task with that many GPUs, the CPU first."""
    kinds = ["CPU:0", *(f"GPU:{number}" for number in range(gpus))]
    return [f"/job:{job}/task:{index}/device:{kind}" for kind in kinds]


def slots(hosts: Iterable[HostInfo]) -> list[HostSlot]:
    """Return a ``HostSlot`` for each running host."""
    return [
        HostSlot(
            host.address,
            host.name,
            host.machine,
            host.threads,
            tuple(Gpu(g.id, g.memory_bytes) for g in host.gpus),
            host.slots or 1,
        )
        for host in hosts
    ]


def expected_slots(hosts: Iterable[HostDesign]) -> list[HostSlot]:
    """Return a ``HostSlot`` for each host that is expected to start, as if every host were a separate machine."""
    return [
        HostSlot(
            host.name,
            host.name,
            host.name,
            host.cpus,
            tuple(Gpu(f"{host.name}/{number}", memory) for number, memory in enumerate(host.gpus)),
        )
        for host in hosts
    ]


def tf_configs(jobs: Mapping[str, int]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the ClusterSpec of these jobs, and the TF_CONFIG of the first ``MOST_CONFIGS`` tasks in rank order.

    Ports are 0: a run chooses its own.
    """
    tasks = ordered_tasks(jobs)
    spec: dict[str, list[str]] = {}
    for job, _index in tasks:
        spec.setdefault(job, []).append("localhost:0")
    configs = {
        f"{job}:{index}": json.dumps({"cluster": spec, "task": {"type": job, "index": index}})
        for job, index in tasks[:MOST_CONFIGS]
    }
    return spec, configs


def main_device(task: PlannedTask) -> str:
    """Return the task's first GPU, or its CPU if it has no GPU."""
    return task.devices[1] if task.gpus.gpus else task.devices[0]


def ordered_tasks(jobs: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return (job, index) of every task in rank order: chief, workers, others alphabetically, ``ps``, ``evaluator``."""
    others = sorted(set(jobs) - {*FIRST_JOBS, *CPU_JOBS})
    order = [job for job in (*FIRST_JOBS, *others, *CPU_JOBS) if job in jobs]
    return [(job, index) for job in order for index in range(jobs[job])]


def plan(
    jobs: Mapping[str, int],
    hosts: Sequence[HostSlot],
    threads_per_task: int = 0,
    gpus: GpuRequest | None = None,
    layout: HostLayout = NO_LAYOUT,
) -> list[PlannedTask]:
    """Plan where each task runs. Returns the tasks in rank order.

    Tasks that the design assigns to hosts and devices stay there, and each remaining task goes to the host with the
    fewest tasks per thread. If the design assigns no task, the tasks are spread evenly over the hosts' slots, with
    consecutive ranks on the same or the next host.

    If ``threads_per_task`` is 0, each host's threads are divided among its tasks, which get at least one each. If
    ``gpus`` is None, the GPUs are divided among the tasks. Raises GangIncomplete if there is no host, or a host of
    the design is missing, and Unavailable if a host does not have the requested GPUs.
    """
    tasks = ordered_tasks(jobs)
    if not hosts:
        raise GangIncomplete(f"No host is available for the {len(tasks)} tasks of the run")
    hosts = sorted(hosts, key=lambda host: (host.machine, _natural(host.name)))
    places = {place.task: place for place in layout.tasks}
    drawn = match_hosts(layout.hosts, hosts)
    names = {host.address: name for name, host in drawn.items()}
    chosen = _choose(tasks, hosts, places, drawn)
    on_host = Counter(host.address for host in chosen)
    on_machine = Counter(host.machine for host in chosen)
    hosted_tasks = []
    for (job, index), host in zip(tasks, chosen, strict=True):
        place = places.get(f"{job}:{index}")
        chosen_device = ChosenDevice(place.gpu, place.memory_bytes) if place else None
        called = names.get(host.address, host.name)
        hosted_tasks.append(HostedTask(f"{job}:{index}", job, called, host.machine, host.gpus, chosen_device))
    assigned = assign_gpus(hosted_tasks, gpus or GpuRequest())
    seen: Counter[str] = Counter()
    planned = []
    for rank, ((job, index), host) in enumerate(zip(tasks, chosen, strict=True)):
        threads = threads_per_task or max(1, host.threads // on_host[host.address])
        local = seen[host.machine], on_machine[host.machine]
        name = f"{job}:{index}"
        planned.append(PlannedTask(job, index, rank, host, threads, *local, assigned[name], name in places))
        seen[host.machine] += 1
    return planned


def plan_beside(
    planned: Sequence[PlannedTask], going_on: Collection[str], hosts: Sequence[HostSlot], *, crowd: bool
) -> list[PlannedTask]:
    """Plan a gang whose tasks in ``going_on`` stay where they are while the others are restarted.

    A lost task returns to its host if that still exists, and otherwise goes to the host with the most free threads.
    Raises GangIncomplete if the tasks do not fit: there is no host, or none with enough free threads (unless tasks may
    ``crowd``), or a task that has its own GPUs or was assigned by the user has lost its host.
    """
    there = {host.address: host for host in hosts}
    placed: dict[str, PlannedTask] = {task.task: task for task in planned if task.task in going_on}
    used = Counter({host.address: 0 for host in hosts})
    for task in placed.values():
        used[task.host.address] += task.threads
    for task in planned:
        if task.task in going_on:
            continue
        if (host := there.get(task.host.address)) is None:
            if task.gpus.gpus or task.was_put or not hosts:
                raise GangIncomplete(f"{task.task} must return to host {task.host.name}, which no longer exists")
            host = max(hosts, key=lambda each: each.threads - used[each.address])
            if not crowd and used[host.address] + task.threads > host.threads:
                raise GangIncomplete(f"No host has {task.threads} free threads for {task.task}")
        used[host.address] += task.threads
        placed[task.task] = replace(task, host=host)
    return ranked([placed[task.task] for task in planned])


def plan_fewer(
    planned: Sequence[PlannedTask], least: int, hosts: Sequence[HostSlot], group: int = 1
) -> list[PlannedTask]:
    """Plan the restart of a gang without some of its workers: as few as necessary for all other tasks to fit.

    Tasks with a host that still exists stay there. Workers are left out in groups of ``group`` consecutive ranks: first
    the groups with the fewest tasks on such hosts and, of equal groups, the one with the highest ranks. ``ps`` tasks
    are never left out. Raises GangIncomplete if ``least`` workers and the other tasks do not fit.
    """
    there = {host.address for host in hosts}
    workers = [task for task in planned if task.job not in CPU_JOBS]
    groups = [workers[first : first + group] for first in range(0, len(workers), group)]
    may_go = sorted(groups, key=lambda tasks: (sum(task.host.address in there for task in tasks), -tasks[0].rank))
    fewest = -(-least // group)
    for count in range(len(groups) - fewest + 1):
        left_out = {task.task for tasks in may_go[:count] for task in tasks}
        wanted = [task for task in planned if task.task not in left_out]
        stay = {task.task for task in wanted if task.host.address in there}
        with suppress(GangIncomplete):
            return plan_beside(wanted, stay, hosts, crowd=False)
    raise GangIncomplete(f"The hosts have too few threads or devices for {fewest * group} of {len(workers)} workers")


def ranked(tasks: Sequence[PlannedTask]) -> list[PlannedTask]:
    """Return the tasks with ranks assigned in order, both within the gang and within each machine."""
    on_machine = Counter(task.host.machine for task in tasks)
    seen: Counter[str] = Counter()
    found = []
    for rank, task in enumerate(tasks):
        machine = task.host.machine
        found.append(replace(task, rank=rank, local_rank=seen[machine], local_size=on_machine[machine]))
        seen[machine] += 1
    return found


def _choose(
    tasks: Sequence[tuple[str, int]],
    hosts: Sequence[HostSlot],
    places: Mapping[str, TaskPlace],
    drawn: Mapping[str, HostSlot],
) -> list[HostSlot]:
    """Return the host for each task, in rank order."""
    put: dict[int, HostSlot] = {}
    for rank, (job, index) in enumerate(tasks):
        if place := places.get(f"{job}:{index}"):
            if place.host not in drawn:
                there = ", ".join(drawn) or "none"
                raise GangIncomplete(
                    f"{place.task} must be on one of the hosts of the design, {there}, got {place.host!r}"
                )
            put[rank] = drawn[place.host]
    if not put:
        by_slot = [host for host in hosts for _ in range(host.slots)]
        return [by_slot[rank * len(by_slot) // len(tasks)] for rank in range(len(tasks))]
    on_host = Counter(put.values())
    for rank in range(len(tasks)):
        if rank not in put:
            put[rank] = min(hosts, key=lambda host: (on_host[host] + 1) / max(1, host.threads))
            on_host[put[rank]] += 1
    return [put[rank] for rank in range(len(tasks))]


def match_hosts(drawn: Sequence[HostDesign], hosts: Sequence[HostSlot]) -> dict[str, HostSlot]:
    """Return the actual host for each host of the design, keyed by its name in the design.

    Hosts are matched by host name, then by machine name, then in order. Raises GangIncomplete, naming the missing
    hosts, if there are too few.
    """
    left = sorted(hosts, key=lambda host: (host.machine, _natural(host.name)))
    found: dict[str, HostSlot] = {}
    for same in (lambda host, name: host.name == name, lambda host, name: host.machine == name, lambda *_: True):
        for design in drawn:
            match = next((host for host in left if same(host, design.name)), None)
            if design.name not in found and match is not None:
                found[design.name] = match
                left.remove(match)
    if missing := [design.name for design in drawn if design.name not in found]:
        raise GangIncomplete(
            f"The cluster must have the {len(drawn)} hosts of the design, got {len(hosts)}. Missing: "
            f"{', '.join(missing)}"
        )
    return {design.name: found[design.name] for design in drawn}


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts ``host-2`` before ``host-10``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def crowding(planned: Sequence[PlannedTask]) -> str:
    """Return a sentence about hosts whose tasks have more threads than the host; empty if there are no such hosts."""
    wanted: Counter[HostSlot] = Counter()
    tasks: Counter[HostSlot] = Counter()
    for task in planned:
        wanted[task.host] += task.threads
        tasks[task.host] += 1
    crowded = [host for host in wanted if wanted[host] > host.threads]
    return "; ".join(
        f"{tasks[host]} tasks with {wanted[host]} threads share the {host.threads} threads of host {host.name}"
        for host in crowded
    )


def without_gpu(planned: Sequence[PlannedTask]) -> str:
    """Return a sentence about hosts with too few GPUs, whose tasks use no GPU; empty if there are no such hosts."""
    left = [
        task
        for task in planned
        if task.host.gpus and not task.gpus.gpus and task.job not in CPU_JOBS and not task.was_put
    ]
    waiting = Counter(task.host for task in left)
    return "; ".join(
        f"{count} tasks on host {host.name} compute on its CPU because it has {len(host.gpus)} GPU"
        f"{'s' * (len(host.gpus) > 1)}: set gpu_memory to let several tasks share one"
        for host, count in waiting.items()
    )
