"""Hosts with their devices, and the tasks placed on them: the part of a cluster design that the designer draws."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..errors import InvalidInput
from .base import Struct

_DEVICE = re.compile(r"^(?P<kind>CPU|GPU:(?P<gpu>[0-9]{1,4}))\Z")


def host_name(worker: object) -> str:
    """Return the host name of a Dask worker: the worker's own name, or its address if it has none."""
    return str(worker).removeprefix("tls://").removeprefix("tcp://")


class HostDesign(Struct):
    """A host in a design, with its devices."""

    name: str
    cpus: int = 1
    memory_bytes: int = 0
    """The memory of the host; 0: unknown."""
    gpus: list[int] = []
    """The memory of each GPU in bytes, starting with ``GPU:0``; 0: unknown."""


class TaskPlace(Struct):
    """The placement of a task on a device of a host. Tasks without a placement are assigned to hosts automatically."""

    job: str
    index: int
    host: str
    device: str = "CPU"
    """``CPU``, or a GPU of the host, such as ``GPU:1`` for the second one."""
    memory_bytes: int = 0
    """The largest amount of device memory that the task may allocate, in bytes; 0: no limit."""

    @property
    def task(self) -> str:
        """The name of the task, such as ``worker:1``."""
        return f"{self.job}:{self.index}"

    @property
    def gpu(self) -> int | None:
        """The index of the host's GPU; None for the CPU. Raises InvalidInput if ``device`` is neither."""
        match = _DEVICE.match(self.device)
        if match is None:
            raise InvalidInput(f"A device must be CPU, GPU:0, GPU:1 and so on, got {self.device!r}", field="device")
        return None if match["gpu"] is None else int(match["gpu"])


def check_places(jobs: Mapping[str, int], hosts: Sequence[HostDesign], tasks: Sequence[TaskPlace]) -> None:
    """Raise the first error of ``wrong_places``, if any."""
    for error in wrong_places(jobs, hosts, tasks):
        raise error


def wrong_places(
    jobs: Mapping[str, int], hosts: Sequence[HostDesign], tasks: Sequence[TaskPlace]
) -> Iterator[InvalidInput]:
    """Yield the errors in hosts and task placements, with fields such as ``hosts[1].name`` and ``tasks[0].device``."""
    named: dict[str, HostDesign] = {}
    for number, host in enumerate(hosts):
        yield from _wrong_host(host, f"hosts[{number}]")
        if host.name in named:
            yield InvalidInput(f"Host names must be unique, got {host.name!r} twice", field=f"hosts[{number}].name")
        named[host.name] = host
    seen: set[str] = set()
    for number, place in enumerate(tasks):
        where = f"tasks[{number}]"
        if place.job not in jobs:
            yield InvalidInput(f"`job` must be one of {', '.join(jobs)}, got {place.job!r:.100}", field=f"{where}.job")
        elif not 0 <= place.index < jobs[place.job]:
            yield InvalidInput(
                f"The task index must be from 0 to {jobs[place.job] - 1} for the job {place.job}, got {place.index}",
                field=f"{where}.index",
            )
        elif place.task in seen:
            yield InvalidInput(f"A task must be placed only once, got {place.task} twice", field=where)
        seen.add(place.task)
        if place.host not in named:
            yield InvalidInput(
                f"The host of {place.task} must be one of the design's hosts ({', '.join(named) or 'none'}), got "
                f"{place.host!r:.100}",
                field=f"{where}.host",
            )
        else:
            yield from _wrong_device(place, named[place.host], where)


def _wrong_host(host: HostDesign, where: str) -> Iterator[InvalidInput]:
    if not host.name:
        yield InvalidInput("A host must have a name, got ''", field=f"{where}.name")
    if host.cpus < 1:
        yield InvalidInput(f"A host must have at least one CPU, got {host.cpus}", field=f"{where}.cpus")
    if host.memory_bytes < 0:
        yield InvalidInput(f"Memory must be >= 0 (0: unknown), got {host.memory_bytes}", field=f"{where}.memory_bytes")
    for gpu, memory in enumerate(host.gpus):
        if memory < 0:
            yield InvalidInput(f"Memory must be >= 0 (0: unknown), got {memory}", field=f"{where}.gpus[{gpu}]")


def _wrong_device(place: TaskPlace, host: HostDesign, where: str) -> Iterator[InvalidInput]:
    try:
        gpu = place.gpu
    except InvalidInput as error:
        yield InvalidInput(str(error), field=f"{where}.device")
        return
    if gpu is not None and gpu >= len(host.gpus):
        there = f"GPU:0 to GPU:{len(host.gpus) - 1}" if host.gpus else "no GPU"
        yield InvalidInput(
            f"The host {host.name} has {there}, but the task is placed on {place.device}", field=f"{where}.device"
        )
        return
    memory = host.memory_bytes if gpu is None else host.gpus[gpu]
    if place.memory_bytes < 0:
        yield InvalidInput(
            f"A memory cap must be >= 0 (0: no cap), got {place.memory_bytes}", field=f"{where}.memory_bytes"
        )
    elif memory and place.memory_bytes > memory:
        yield InvalidInput(
            f"A memory cap must be <= {memory}, the memory of {place.device} of {host.name}, got {place.memory_bytes}",
            field=f"{where}.memory_bytes",
        )
