"""A host's checks of itself, used before a gang starts and by ``jupyter dtf doctor``."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from ...schema.checkup import WARNING, Finding, FreeSpace
from ...schema.machines import GpuInfo
from ..machine import facts, leftovers
from ..planning import host_findings

_LOOK_S = 1.0
"""The maximum time in seconds to wait for file systems to respond."""


class SelfCheck:
    """The checks of one host. ``versions`` are those of the packages installed on it."""

    def __init__(self, versions: Mapping[str, str]) -> None:
        self._versions = versions
        self._free_spaces: list[FreeSpace] = []
        self._looking: asyncio.Task[None] | None = None

    def findings(self, gpus: Sequence[GpuInfo], failure: str = "", *, is_imported: bool = False) -> list[Finding]:
        """Return the findings that are available immediately, including those on the disk space read by the last
        ``look``.

        Args:
            gpus: The GPUs of the machine.
            failure: Why no task can start; empty if tasks can start.
            is_imported: Whether TensorFlow has been imported.
        """
        return quick(self._versions, gpus, self._free_spaces, failure, is_imported=is_imported)

    async def look(self) -> None:
        """Read the free disk space. If a file system hangs, return early; the result is stored when it arrives."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())
        await asyncio.wait([self._looking], timeout=_LOOK_S)

    async def _look(self) -> None:
        self._free_spaces = await asyncio.to_thread(facts.free_spaces)

    def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()


def quick(
    versions: Mapping[str, str],
    gpus: Sequence[GpuInfo],
    spaces: Sequence[FreeSpace],
    failure: str = "",
    *,
    is_imported: bool = False,
) -> list[Finding]:
    """Quickly return findings on TensorFlow, GPUs and disks. For the arguments, see `SelfCheck.findings`."""
    return [
        *host_findings.of_tensorflow(versions, failure, is_imported=is_imported),
        *host_findings.of_gpus(facts.gpus_asked_for(), [gpu.name for gpu in gpus], facts.tensorflow_distribution()),
        *host_findings.of_free_space(spaces),
    ]


def left_over(alive: Collection[str], *, clean: bool) -> list[Finding]:
    """Return findings about the leftovers of dead clusters on this machine.

    Args:
        alive: Tokens of clusters that are known to be alive.
        clean: Whether to remove the leftovers. The findings then list those removed and those that could not be.
    """
    found = leftovers.find(alive)
    removed = []
    if clean and found:
        stays = {left.token: left for left in leftovers.remove(found)}
        removed = [Finding(about="left over", text=f"removed: {left}") for left in found if left.token not in stays]
        found = list(stays.values())
    return [*removed, *(Finding(about="left over", text=str(left), level=WARNING) for left in found)]
