"""Keeps the results of a cluster's ended runs in files on the controller's machine: the newest, up to a total size.

The files are in the cluster's directory, private to the user, and are removed with it. The controller's memory does not
grow with them: a result is in memory only until it is written, or if it cannot be written.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from ...errors import NotFound, Unavailable
from ...schema import private_files
from ...schema.disk_space import FULL
from ...schema.result_files import hold
from ...schema.sizes import bytes_
from ..viewer.background import Background

logger = logging.getLogger(__name__)

MOST_BYTES = 4 << 30
"""The maximum total size of the results kept. They also use at most half of the space that would be free without them.
The results of the newest run are always kept.
"""
LEAST_BYTES = 64 << 10
"""Each result counts as at least this size, so that the number of small results is bounded too."""
MOST_HELD_BYTES = 64 << 20
"""The maximum size of unwritten results kept in memory. The results of the newest run are always kept."""
PART_BYTES = 16 << 20
"""The size of the parts in which a large result is read and sent."""


class _Kept:
    """The results of one run: in memory (``held``) until they have been written, concatenated, to one file."""

    def __init__(self, results: Mapping[str, bytes]) -> None:
        self.held: dict[str, bytes] | None = dict(results)
        self.places: dict[str, tuple[int, int]] = {}  # the offset and size of each task's result
        at = 0
        for task, data in results.items():
            self.places[task] = at, len(data)
            at += len(data)
        self.size = at
        self.cost = sum(max(len(data), LEAST_BYTES) for data in results.values())


class KeptResults:
    """Keeps the return values of the tasks of ended runs.

    ``directory()`` returns the directory of the files. It is not called before the first file is written.
    """

    def __init__(
        self, cluster: str, directory: Callable[[], Path], background: Background, most_bytes: int = MOST_BYTES
    ) -> None:
        self._cluster = cluster
        self._directory = directory
        self._background = background
        self._most_bytes = most_bytes
        self._by_run: dict[str, _Kept] = {}  # in the order in which the runs ended
        self._made_room = False
        self._turn = asyncio.Lock()
        self._held = -1

    def close(self) -> None:
        """Release the lock on the results, so that they are removed together with the cluster's directory."""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1

    def _hold(self, directory: Path) -> None:
        """Lock the directory of results. If it has been removed and recreated, lock the new directory."""
        if self._held < 0 or not os.path.samestat(os.fstat(self._held), directory.stat()):
            self.close()
            self._held = hold(directory)

    def put(self, run_id: str, results: Mapping[str, bytes]) -> None:
        """Keep the results of a run that has just ended. They are written in the background."""
        if results:
            kept = self._by_run[run_id] = _Kept(results)
            self._background.begin(self._save(run_id, kept))

    def has(self, run_id: str) -> bool:
        return run_id in self._by_run

    async def read(self, run_id: str, task: str, at: int = 0, count: int | None = None) -> tuple[bytes, int]:
        """Return up to ``count`` bytes of a result from offset ``at``, and the size of the result. Raises NotFound."""
        if (kept := self._by_run.get(run_id)) is None:
            raise self.not_kept(run_id)
        if task not in kept.places:
            raise NotFound(f"{task} of {run_id} has no result, because it has not succeeded")
        begin, size = kept.places[task]
        end = size if count is None else min(at + count, size)
        if kept.held is not None:
            return kept.held[task][at:end], size
        try:
            data = await asyncio.to_thread(_read, self._directory() / run_id, begin + at, max(end - at, 0))
        except OSError as error:
            if run_id not in self._by_run:  # the result has just been dropped to free space for newer results
                raise self.not_kept(run_id) from None
            raise NotFound(
                f"The results of the run {run_id} were in a file of its cluster {self._cluster}, which can no longer "
                f"be read: {error}"
            ) from None
        return data, size

    def not_kept(self, run_id: str) -> NotFound:
        """Return the error for results that are not kept, with the reason."""
        if self._made_room:
            return NotFound(
                f"The results of the run {run_id} are no longer kept: the cluster {self._cluster} keeps those of the "
                f"newest run, and as many earlier ones as fit into {bytes_(self._most_bytes)} and into half of the "
                "free disk space. Fetch results earlier, or have tasks write large ones to files"
            )
        return NotFound(
            f"The cluster {self._cluster} has no results of a run with the id {run_id!r}; if an earlier cluster of "
            "that name ran it, its results were removed when that cluster was closed"
        )

    # -- writing ------------------------------------------------------------------------------------------------

    async def _save(self, run_id: str, kept: _Kept) -> None:
        async with self._turn:
            while self._by_run.get(run_id) is kept:
                try:
                    directory = private_files.make_dir(self._directory())
                    self._hold(directory)
                    await self._make_room(run_id, directory)
                    assert kept.held is not None
                    await asyncio.to_thread(_write, directory / run_id, list(kept.held.values()))
                except (OSError, Unavailable) as error:
                    is_full = isinstance(error, OSError) and error.errno in FULL
                    oldest = next((each for each in self._by_run if self._by_run[each].held is None), None)
                    if is_full and oldest is not None:
                        await self._drop(oldest)
                        continue
                    logger.warning("The results of the run %s stay in memory: %s", run_id, error)
                    await self._hold_less(run_id)
                    return
                kept.held = None
                return

    async def _make_room(self, run_id: str, directory: Path) -> None:
        """Drop the oldest results until the results of this run fit into the space that may be used."""
        written = sum(kept.size for kept in self._by_run.values() if kept.held is None)
        free = (await asyncio.to_thread(shutil.disk_usage, directory)).free
        most = min(self._most_bytes, (free + written) // 2)
        older = list(self._by_run)[: list(self._by_run).index(run_id)]
        costs = {each: self._by_run[each].cost for each in (*older, run_id)}
        left = sum(costs.values())
        for each in older:
            if left <= most:
                return
            left -= costs[each]
            await self._drop(each)

    async def _hold_less(self, run_id: str) -> None:
        """Drop the oldest of the results that could not be written to disk, until the rest fit into MOST_HELD_BYTES."""
        held = [each for each, kept in self._by_run.items() if kept.held is not None]
        left = sum(self._by_run[each].size for each in held)
        for each in held[: held.index(run_id)]:
            if left <= MOST_HELD_BYTES:
                return
            left -= self._by_run[each].size
            await self._drop(each)

    async def _drop(self, run_id: str) -> None:
        self._made_room = True
        if self._by_run.pop(run_id).held is None:
            with contextlib.suppress(OSError, Unavailable):
                await asyncio.to_thread((self._directory() / run_id).unlink)


def _write(path: Path, parts: list[bytes]) -> None:
    """Write a file, leaving none behind on failure. Raises OSError."""
    try:
        with private_files.open_file(path) as file:
            for part in parts:
                file.write(part)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _read(path: Path, at: int, count: int) -> bytes:
    with private_files.open_regular(path) as file:
        file.seek(at)
        data = file.read(count)
    if len(data) != count:
        raise OSError(f"{os.fspath(path)} is shorter than when it was written")
    return data
