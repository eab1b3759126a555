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

    ``per_task`` None divides a machine's GPUs among its tasks. ``memory`` caps the memory a task may take on a GPU, in
    bytes (int) or as a fraction (float), so that several tasks may share one.
    """

    per_task: int | None = None
    memory: int | float | None = None
    grows: bool = True
    """Whether what is not capped is taken as it is needed, or at once."""


@dataclass(frozen=True)
class Wish:
    """The device that a task was put on: the number of its host's GPU, None for the CPU; and the cap, in bytes."""

    gpu: int | None
    memory_bytes: int = 0


@dataclass(frozen=True)
class Seat:
    """A task that has a host: the names of both, the machine, and the host's GPUs in the order it takes them."""

    task: str
    job: str
    host: str
    machine: str
    gpus: tuple[Gpu, ...]
    wish: Wish | None = None


@dataclass(frozen=True)
class Grant:
    """The GPUs of one task, and the most it may take of each in bytes (0: all; as it needs it, if it ``grows``)."""

    gpus: tuple[str, ...] = ()
    memory_bytes: int = 0
    grows: bool = True


NO_GPU = Grant()

SHARED = 0.95
"""What the tasks of a GPU take of it together; the rest is for their CUDA contexts."""


def grant_gpus(seats: Sequence[Seat], request: GpuRequest) -> dict[str, Grant]:
    """Assign GPUs to every task. ``ps`` and ``evaluator`` tasks get none, unless they were assigned to one.

    Tasks that were assigned to a device keep it, unless the request overrides it; the others share the remaining GPUs.
    Without caps, no GPU belongs to two tasks; if nothing was requested and a machine has too few GPUs, its tasks get
    none. Raises Unavailable, naming what exists, if a machine does not have what is requested.
    """
    granted = dict.fromkeys((seat.task for seat in seats), NO_GPU)
    if request.per_task == 0:
        return granted
    if request.per_task is None and request.memory is None:
        granted.update({seat.task: _as_wished(seat, seat.wish) for seat in seats if seat.wish is not None})
        taken = {gpu for grant in granted.values() for gpu in grant.gpus}
        seats = [
            replace(seat, gpus=tuple(gpu for gpu in seat.gpus if gpu.id not in taken))
            for seat in seats
            if seat.wish is None
        ]
    machines: dict[str, list[Seat]] = {}
    for seat in seats:
        if seat.job not in CPU_JOBS:
            machines.setdefault(seat.machine, []).append(seat)
    for computing in machines.values():
        if request.per_task is None and request.memory is None:
            granted.update(_divided(computing))
        else:
            granted.update(_Machine(computing, request).grants())
    if request.grows:
        return granted
    return {task: replace(grant, grows=not grant.gpus) for task, grant in granted.items()}


def _as_wished(seat: Seat, wish: Wish) -> Grant:
    if wish.gpu is None:
        return NO_GPU
    if wish.gpu >= len(seat.gpus):
        there = f"{len(seat.gpus)} GPU{'s' * (len(seat.gpus) > 1)}" if seat.gpus else "none"
        message = f"{seat.task} was put on GPU:{wish.gpu} of host {seat.host}, which has {there}"
        raise Unavailable(message, task=seat.task)
    gpu = seat.gpus[wish.gpu]
    if gpu.memory_bytes and wish.memory_bytes > gpu.memory_bytes:
        raise Unavailable(
            f"{seat.task} was given {_size(wish.memory_bytes)} of GPU:{wish.gpu} of host {seat.host}, which has "
            f"{_size(gpu.memory_bytes)}",
            task=seat.task,
        )
    return Grant((gpu.id,), wish.memory_bytes)


def _divided(seats: list[Seat]) -> dict[str, Grant]:
    """The largest equal number of GPUs that every task can have."""
    there = {gpu.id for seat in seats for gpu in seat.gpus}
    for per_task in range(len(there) // len(seats), 0, -1):
        try:
            return _Machine(seats, GpuRequest(per_task)).grants()
        except Unavailable:  # its hosts have unequally many
            continue
    return {}


class _Machine:
    """Hands out one machine's GPUs, task by task."""

    def __init__(self, seats: list[Seat], request: GpuRequest) -> None:
        self._seats = seats
        self._wanted = request.per_task or 1
        self._memory = request.memory
        self._taken: dict[str, float] = {}  # of each GPU, as a fraction
        self._users: dict[str, int] = {}

    def grants(self) -> dict[str, Grant]:
        return {seat.task: self._grant(seat) for seat in self._seats}

    def _grant(self, seat: Seat) -> Grant:
        if isinstance(self._memory, float) and any(gpu.memory_bytes == 0 for gpu in seat.gpus):
            raise Unavailable(
                f"`gpu_memory` must be in bytes, got the fraction {self._memory}: host {seat.host} cannot report the "
                "size of its GPUs without NVML (pip install nvidia-ml-py)"
            )
        fitting = [gpu for gpu in seat.gpus if self._taken.get(gpu.id, 0.0) + self._fraction(gpu) <= 1 + 1e-9]
        if len(fitting) < self._wanted:
            raise Unavailable(self._refusal(seat))
        fitting.sort(key=lambda gpu: self._users.get(gpu.id, 0))  # stable: the host's own order among equals
        chosen = fitting[: self._wanted]
        for gpu in chosen:
            self._taken[gpu.id] = self._taken.get(gpu.id, 0.0) + self._fraction(gpu)
            self._users[gpu.id] = self._users.get(gpu.id, 0) + 1
        return Grant(tuple(gpu.id for gpu in chosen), min(self._cap_bytes(gpu) for gpu in chosen))

    def _fraction(self, gpu: Gpu) -> float:
        """The fraction of a GPU that one task takes."""
        match self._memory:
            case None:
                return 1.0
            case float():
                return self._memory
            case _:  # bytes; of a GPU whose size is not known, all
                return self._memory / gpu.memory_bytes if gpu.memory_bytes else 1.0

    def _cap_bytes(self, gpu: Gpu) -> int:
        match self._memory:
            case None:
                return 0
            case float():
                return int(self._memory * gpu.memory_bytes)
            case _:
                return self._memory

    def _refusal(self, seat: Seat) -> str:
        each = f"{self._wanted} GPU{'s' * (self._wanted > 1)} per task"
        if self._memory is not None:
            each += f", {_size(self._memory)} of each"
        mine = sum(other.host == seat.host for other in self._seats)
        there = f"{len(seat.gpus)} GPU{'s' * (len(seat.gpus) != 1)}" if seat.gpus else "none"
        if self._memory is not None and seat.gpus:
            there += f" ({', '.join(_size(gpu.memory_bytes) for gpu in seat.gpus)})"
        return f"{each}: host {seat.host} has {there} for {mine} task{'s' * (mine > 1)}"


def _size(amount: int | float) -> str:
    if isinstance(amount, float):
        return f"{amount:.0%}"
    return f"{amount / 2**30:.3g} GiB" if amount else "size not known"
