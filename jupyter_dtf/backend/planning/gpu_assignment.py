"""Assigns the GPUs of each machine to its tasks. Pure: plain values in, plain values out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...errors import Unavailable
from ...schema.cluster import CPU_JOBS


@dataclass(frozen=True)
class Gpu:
    """A GPU of a host. ``id`` is its name in CUDA_VISIBLE_DEVICES; ``memory_bytes`` is 0 if unknown."""

    id: str
    memory_bytes: int = 0


@dataclass(frozen=True)
class GpuRequest:
    """The GPUs that a run requests for each of its compute tasks.

    If ``per_task`` is None, each machine's GPUs are divided among its tasks. ``memory`` caps the memory that a task may
    use on a GPU, in bytes (int) or as a fraction (float), so that several tasks may share a GPU.
    """

    per_task: int | None = None
    memory: int | float | None = None
    grows: bool = True
    """Whether a task without a cap allocates GPU memory as needed (True) or all of it at the start (False)."""
    is_needed: bool = False
    """Whether a machine with fewer GPUs than tasks is an error if ``per_task`` is None."""


@dataclass(frozen=True)
class ChosenDevice:
    """The device assigned to a task: an index into its host's GPUs (None: CPU), and a memory limit in bytes."""

    gpu: int | None
    memory_bytes: int = 0


@dataclass(frozen=True)
class HostedTask:
    """A task with its host and machine, and the host's GPUs in the order in which the task uses them."""

    task: str
    job: str
    host: str
    machine: str
    gpus: tuple[Gpu, ...]
    device: ChosenDevice | None = None


@dataclass(frozen=True)
class GpuAssignment:
    """The GPUs of one task, its memory limit on each in bytes (0: none), and whether it allocates memory as needed."""

    gpus: tuple[str, ...] = ()
    memory_bytes: int = 0
    grows: bool = True


NO_GPU = GpuAssignment()

SHARED = 0.95
"""The maximum fraction of a GPU's memory that is divided among its tasks."""
CONTEXT_BYTES = 700 << 20
"""The GPU memory that a process uses in addition to TensorFlow's allocations: 524 to 613 MiB, measured on an H200."""


def share_of(memory_bytes: int, tasks: int) -> int:
    """Return how many bytes of a GPU's memory each of ``tasks`` processes that share the GPU evenly may allocate.

    If the processes' contexts would need more than half of the memory, as on a small GPU with many tasks, the tasks
    share half of it, and may run out of memory.
    """
    left = min(int(memory_bytes * SHARED), memory_bytes - tasks * CONTEXT_BYTES)
    return max(left, memory_bytes // 2) // tasks


def assign_gpus(hosted_tasks: Sequence[HostedTask], request: GpuRequest) -> dict[str, GpuAssignment]:
    """Assign GPUs to the tasks. Return the assignment of every task, keyed by task.

    Tasks that were assigned to a device keep it, unless the request overrides it; other tasks share the remaining GPUs.
    Other ``ps`` and ``evaluator`` tasks get none. Without caps, no GPU belongs to two tasks. If no GPUs were requested
    and a machine has too few, its tasks get none, unless the request says that each task needs one. Raises Unavailable,
    naming the existing GPUs, if a machine does not have the requested GPUs.
    """
    assigned = dict.fromkeys((hosted.task for hosted in hosted_tasks), NO_GPU)
    if request.per_task == 0:
        return assigned
    if request.per_task is None and request.memory is None:
        assigned.update(
            {hosted.task: _as_chosen(hosted, hosted.device) for hosted in hosted_tasks if hosted.device is not None}
        )
        taken = {gpu for assignment in assigned.values() for gpu in assignment.gpus}
        hosted_tasks = [
            replace(hosted, gpus=tuple(gpu for gpu in hosted.gpus if gpu.id not in taken))
            for hosted in hosted_tasks
            if hosted.device is None
        ]
    machines: dict[str, list[HostedTask]] = {}
    for hosted in hosted_tasks:
        if hosted.job not in CPU_JOBS:
            machines.setdefault(hosted.machine, []).append(hosted)
    for computing in machines.values():
        if request.per_task is None and request.memory is None:
            divided = _divided(computing)
            if request.is_needed and not divided:
                divided = _Machine(computing, GpuRequest(1)).assignments()  # raises an error that names the GPUs
            assigned.update(divided)
        else:
            assigned.update(_Machine(computing, request).assignments())
    if request.grows:
        return assigned
    return {task: replace(assignment, grows=not assignment.gpus) for task, assignment in assigned.items()}


def _as_chosen(hosted: HostedTask, device: ChosenDevice) -> GpuAssignment:
    if device.gpu is None:
        return NO_GPU
    if device.gpu >= len(hosted.gpus):
        there = f"{len(hosted.gpus)} GPU{'s' * (len(hosted.gpus) > 1)}" if hosted.gpus else "none"
        message = f"{hosted.task} was assigned to GPU:{device.gpu} of host {hosted.host}, which has {there}"
        raise Unavailable(message, task=hosted.task)
    gpu = hosted.gpus[device.gpu]
    if gpu.memory_bytes and device.memory_bytes > gpu.memory_bytes:
        raise Unavailable(
            f"{hosted.task} was given {_size(device.memory_bytes)} of GPU:{device.gpu} of host {hosted.host}, which "
            f"has {_size(gpu.memory_bytes)}",
            task=hosted.task,
        )
    return GpuAssignment((gpu.id,), device.memory_bytes)


def _divided(hosted_tasks: list[HostedTask]) -> dict[str, GpuAssignment]:
    """Assign every task the same number of GPUs, as many as possible; return an empty dict if there are too few."""
    there = {gpu.id for hosted in hosted_tasks for gpu in hosted.gpus}
    for per_task in range(len(there) // len(hosted_tasks), 0, -1):
        try:
            return _Machine(hosted_tasks, GpuRequest(per_task)).assignments()
        except Unavailable:  # the hosts on the machine have different numbers of GPUs
            continue
    return {}


class _Machine:
    """Assigns the GPUs of one machine, task by task."""

    def __init__(self, hosted_tasks: list[HostedTask], request: GpuRequest) -> None:
        self._hosted_tasks = hosted_tasks
        self._wanted = request.per_task or 1
        self._memory = request.memory
        self._taken: dict[str, float] = {}  # the fraction of each GPU that is assigned
        self._users: dict[str, int] = {}

    def assignments(self) -> dict[str, GpuAssignment]:
        return {hosted.task: self._assign(hosted) for hosted in self._hosted_tasks}

    def _assign(self, hosted: HostedTask) -> GpuAssignment:
        if isinstance(self._memory, float) and any(gpu.memory_bytes == 0 for gpu in hosted.gpus):
            raise Unavailable(
                f"`gpu_memory` must be in bytes, got the fraction {self._memory}: host {hosted.host} cannot report the "
                "size of its GPUs without NVML (pip install nvidia-ml-py)"
            )
        fitting = [gpu for gpu in hosted.gpus if self._taken.get(gpu.id, 0.0) + self._fraction(gpu) <= 1 + 1e-9]
        if len(fitting) < self._wanted:
            raise Unavailable(self._refusal(hosted))
        fitting.sort(key=lambda gpu: self._users.get(gpu.id, 0))  # stable: ties keep the host's order
        chosen = fitting[: self._wanted]
        for gpu in chosen:
            self._taken[gpu.id] = self._taken.get(gpu.id, 0.0) + self._fraction(gpu)
            self._users[gpu.id] = self._users.get(gpu.id, 0) + 1
        return GpuAssignment(tuple(gpu.id for gpu in chosen), min(self._cap_bytes(gpu) for gpu in chosen))

    def _fraction(self, gpu: Gpu) -> float:
        """Return the fraction of a GPU that one task uses."""
        match self._memory:
            case None:
                return 1.0
            case float():
                return self._memory
            case _:  # bytes; a task gets the whole GPU if its memory size is unknown
                return self._memory / gpu.memory_bytes if gpu.memory_bytes else 1.0

    def _cap_bytes(self, gpu: Gpu) -> int:
        match self._memory:
            case None:
                return 0
            case float():
                return int(self._memory * gpu.memory_bytes)
            case _:
                return self._memory

    def _refusal(self, hosted: HostedTask) -> str:
        each = f"{self._wanted} GPU{'s' * (self._wanted > 1)} per task"
        if self._memory is not None:
            each += f", {_size(self._memory)} of each"
        mine = sum(other.host == hosted.host for other in self._hosted_tasks)
        there = f"{len(hosted.gpus)} GPU{'s' * (len(hosted.gpus) != 1)}" if hosted.gpus else "none"
        if self._memory is not None and hosted.gpus:
            there += f" ({', '.join(_size(gpu.memory_bytes) for gpu in hosted.gpus)})"
        return f"Requested {each}, but host {hosted.host} has {there} for {mine} task{'s' * (mine > 1)}"


def _size(amount: int | float) -> str:
    if isinstance(amount, float):
        return f"{amount:.0%}"
    return f"{amount / 2**30:.3g} GiB" if amount else "unknown size"
