"""Hosts with their devices, and tasks put on them: what a person has drawn of a cluster."""

from __future__ import annotations

import re

from ..errors import InvalidInput
from .base import Struct

_DEVICE = re.compile(r"^(?P<kind>CPU|GPU:(?P<gpu>[0-9]{1,4}))\Z")


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
