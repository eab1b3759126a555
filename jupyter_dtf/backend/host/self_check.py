"""What a host finds out about itself, for who starts a gang on it and for ``jupyter dtf doctor``."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from ...schema.checkup import WARNING, Finding, Room
from ...schema.machines import GpuInfo
from ..machine import facts, leftovers
from ..planning import host_findings

_LOOK_S = 1.0
"""How long who looks at the disks waits for them."""


class SelfCheck:
    """What one host says of itself, which has these ``versions``."""

    def __init__(self, versions: Mapping[str, str]) -> None:
        self._versions = versions
        self._rooms: list[Room] = []
        self._looking: asyncio.Task[None] | None = None

    def findings(self, gpus: Sequence[GpuInfo], failure: str = "", *, is_imported: bool = False) -> list[Finding]:
        """What can be said at once, of disks as they were at the last ``look``.

        ``failure``: why no task can start; ``is_imported``: TensorFlow is.
        """
        return quick(self._versions, gpus, self._rooms, failure, is_imported=is_imported)

    async def look(self) -> None:
        """Look at the disks: at the end of it, or, where a file system does not answer, later."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())
        await asyncio.wait([self._looking], timeout=_LOOK_S)

    async def _look(self) -> None:
        self._rooms = await asyncio.to_thread(facts.rooms)

    def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()


def quick(
    versions: Mapping[str, str],
    gpus: Sequence[GpuInfo],
    rooms: Sequence[Room],
    failure: str = "",
    *,
    is_imported: bool = False,
) -> list[Finding]:
    """Of TensorFlow, GPUs and disks; ``failure`` and ``is_imported`` are as above. Costs next to nothing."""
    return [
        *host_findings.of_tensorflow(versions, failure, is_imported=is_imported),
        *host_findings.of_gpus(facts.gpus_asked_for(), [gpu.name for gpu in gpus], facts.tensorflow_distribution()),
        *host_findings.of_rooms(rooms),
    ]


def left_over(alive: Collection[str], *, clean: bool) -> list[Finding]:
    """What clusters that are gone have left on this machine; with ``clean``, what of it could not be removed.

    ``alive``: tokens of clusters that are known to live.
    """
    found = leftovers.find(alive)
    removed = []
    if clean and found:
        stays = {left.token: left for left in leftovers.remove(found)}
        removed = [Finding(about="left over", text=f"removed: {left}") for left in found if left.token not in stays]
        found = list(stays.values())
    return [*removed, *(Finding(about="left over", text=str(left), level=WARNING) for left in found)]
