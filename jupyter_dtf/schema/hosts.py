"""Hosts with their devices, and tasks put on them: what a person has drawn of a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..errors import InvalidInput
from .base import Struct

_DEVICE = re.compile(r"^(?P<kind>CPU|GPU:(?P<gpu>[0-9]{1,4}))\Z")


def host_name(worker: object) -> str:
    """What a Dask worker is called as a host: by its name, which is its address where nobody has given it one."""
    return str(worker).removeprefix("tls://").removeprefix("tcp://")


class HostDesign(Struct):
    """A host that is wanted, with its devices."""

    name: str
    cpus: int = 1
    memory_bytes: int = 0
    """0: not known."""
    gpus: list[int] = []
    """The memory of each GPU in bytes, 0 where it is not known; ``GPU:0`` first."""


class TaskPlace(Struct):
    """A task put on a device of a host. Tasks without a place go where there is room."""

    job: str
    index: int
    host: str
    device: str = "CPU"
    """``CPU``, or ``GPU:1``: the host's second GPU."""
    memory_bytes: int = 0
    """The most it may take of the device's memory; 0: all."""

    @property
    def task(self) -> str:
        """``worker:1``."""
        return f"{self.job}:{self.index}"

    @property
    def gpu(self) -> int | None:
        """The number of the host's GPU, None on the CPU. Raises InvalidInput if ``device`` is neither."""
        match = _DEVICE.match(self.device)
        if match is None:
            raise InvalidInput(f"A device is CPU, or GPU:0 and so on. Received: {self.device!r}", field="device")
        return None if match["gpu"] is None else int(match["gpu"])


def check_places(jobs: Mapping[str, int], hosts: Sequence[HostDesign], tasks: Sequence[TaskPlace]) -> None:
    """Raises the first InvalidInput of ``wrong_places``."""
    for error in wrong_places(jobs, hosts, tasks):
        raise error


def wrong_places(
    jobs: Mapping[str, int], hosts: Sequence[HostDesign], tasks: Sequence[TaskPlace]
) -> Iterator[InvalidInput]:
    """What is wrong with hosts and the tasks put on them; fields are as ``hosts[1].name`` and ``tasks[0].device``."""
    named: dict[str, HostDesign] = {}
    for number, host in enumerate(hosts):
        yield from _wrong_host(host, f"hosts[{number}]")
        if host.name in named:
            yield InvalidInput(f"A host's name is its own. Received {host.name!r} twice", field=f"hosts[{number}].name")
        named[host.name] = host
    seen: set[str] = set()
    for number, place in enumerate(tasks):
        where = f"tasks[{number}]"
        if place.job not in jobs:
            yield InvalidInput(f"The jobs are {', '.join(jobs)}. Received: {place.job!r:.100}", field=f"{where}.job")
        elif not 0 <= place.index < jobs[place.job]:
            yield InvalidInput(
                f"The job {place.job} has tasks 0 to {jobs[place.job] - 1}. Received: {place.index}",
                field=f"{where}.index",
            )
        elif place.task in seen:
            yield InvalidInput(f"A task is put in one place. Received {place.task} twice", field=where)
        seen.add(place.task)
        if place.host not in named:
            yield InvalidInput(
                f"The hosts that were drawn are {', '.join(named) or 'none'}. Received: {place.host!r:.100} for "
                f"{place.task}",
                field=f"{where}.host",
            )
        else:
            yield from _wrong_device(place, named[place.host], where)


def _wrong_host(host: HostDesign, where: str) -> Iterator[InvalidInput]:
    if not host.name:
        yield InvalidInput("A host has a name. Received: ''", field=f"{where}.name")
    if host.cpus < 1:
        yield InvalidInput(f"A host has one CPU at least. Received: {host.cpus}", field=f"{where}.cpus")
    if host.memory_bytes < 0:
        yield InvalidInput(
            f"Memory is 0 (not known) or more. Received: {host.memory_bytes}", field=f"{where}.memory_bytes"
        )
    for gpu, memory in enumerate(host.gpus):
        if memory < 0:
            yield InvalidInput(f"Memory is 0 (not known) or more. Received: {memory}", field=f"{where}.gpus[{gpu}]")


def _wrong_device(place: TaskPlace, host: HostDesign, where: str) -> Iterator[InvalidInput]:
    try:
        gpu = place.gpu
    except InvalidInput as error:
        yield InvalidInput(str(error), field=f"{where}.device")
        return
    if gpu is not None and gpu >= len(host.gpus):
        there = f"GPU:0 to GPU:{len(host.gpus) - 1}" if host.gpus else "no GPU"
        yield InvalidInput(f"The host {host.name} has {there}. Received: {place.device}", field=f"{where}.device")
        return
    memory = host.memory_bytes if gpu is None else host.gpus[gpu]
    if place.memory_bytes < 0:
        yield InvalidInput(
            f"A cap is a number of bytes, or 0 for none. Received: {place.memory_bytes}", field=f"{where}.memory_bytes"
        )
    elif memory and place.memory_bytes > memory:
        yield InvalidInput(
            f"A cap is at most what {place.device} of {host.name} has, {memory} bytes. Received: {place.memory_bytes}",
            field=f"{where}.memory_bytes",
        )
