"""Reads the output of a run's tasks in pages; only the requested pages are in memory."""

from __future__ import annotations

import bisect
import heapq
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import overload

from ...errors import Unavailable
from ...schema.events import Logged
from .output_files import DIRECTORY, ENTRY_BYTES, Entry, index_file, source_of

PAGE_BYTES = 256 << 10
"""The maximum size of a page's text, unless a single block is larger."""
PAGE_LINES = 5000


class _Index(Sequence[Entry]):
    """The entries of one index file, read one at a time on demand. Must be closed."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._size = os.fstat(self._fd).st_size // ENTRY_BYTES

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, number: int) -> Entry: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Entry]: ...
    def __getitem__(self, number: int | slice) -> Entry | Sequence[Entry]:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(self._size))]
        if number < 0:
            number += self._size
        if not 0 <= number < self._size:
            raise IndexError(number)
        return Entry.decode(os.pread(self._fd, ENTRY_BYTES, number * ENTRY_BYTES))

    def close(self) -> None:
        os.close(self._fd)


class _Source:
    """One stream of a task, open for reading."""

    def __init__(self, lines: Path) -> None:
        self.task, self.stream = source_of(index_file(lines))
        self.index = _Index(index_file(lines))
        try:
            self._fd = os.open(lines, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self.index.close()
            raise

    def block(self, number: int) -> Logged:
        """Return the lines of one block."""
        entry = self.index[number]
        data = os.pread(self._fd, entry.size, entry.offset)
        lines = data.removesuffix(b"\n").split(b"\n")
        text = [line.decode("utf-8", "replace") for line in lines]
        return Logged(time=entry.time, task=self.task, stream=self.stream, first=entry.first, lines=text)

    def close(self) -> None:
        self.index.close()
        os.close(self._fd)


class OutputReader:
    """The output that a run has written so far. It keeps files open, and is therefore a context manager."""

    def __init__(self, run_dir: Path, task: str = "") -> None:
        """``task``: read only this task's output. Without output files, the reader is empty. Raises Unavailable."""
        directory = run_dir / DIRECTORY
        self.found = bool(run_dir.name) and directory.is_dir()
        """Whether there are output files."""
        self._sources: list[_Source] = []
        try:
            for index in sorted(directory.glob("*.index")) if self.found else ():
                if task in ("", source_of(index)[0]):
                    self._sources.append(_Source(index.with_suffix("")))
        except OSError as error:
            self.close()
            raise Unavailable(f"The output of this run cannot be read: {error}") from error

    def __enter__(self) -> OutputReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        for source in self._sources:
            source.close()

    def before(self, time: float | None = None) -> tuple[list[Logged], bool]:
        """Return the last blocks written before ``time`` (None: the last of all), and whether there are earlier blocks.

        The blocks are complete, oldest first, with up to ``PAGE_BYTES`` of text and up to ``PAGE_LINES`` lines in
        total. At least one block is returned if there is any.
        """
        places = [
            len(source.index) if time is None else bisect.bisect_left(source.index, time, key=lambda entry: entry.time)
            for source in self._sources
        ]
        ends = [(-source.index[place - 1].time, which) for which, (source, place) in self._at(places) if place]
        heapq.heapify(ends)
        page: list[Logged] = []
        size = lines = 0
        while ends:
            _, which = ends[0]
            source = self._sources[which]
            entry = source.index[places[which] - 1]
            if page and (size + entry.size > PAGE_BYTES or lines + entry.lines > PAGE_LINES):
                break
            places[which] -= 1
            size, lines = size + entry.size, lines + entry.lines
            page.append(source.block(places[which]))
            if places[which]:
                heapq.heapreplace(ends, (-source.index[places[which] - 1].time, which))
            else:
                heapq.heappop(ends)
        return page[::-1], bool(ends)

    def after(self, time: float) -> tuple[list[Logged], bool]:
        """Return the first blocks written after ``time``, oldest first, and whether there are later blocks."""
        page: list[Logged] = []
        size = lines = 0

        def behind(source: _Source) -> int:
            return bisect.bisect_right(source.index, time, key=lambda entry: entry.time)

        for entry, source, place in self._from(behind):
            if page and (size + entry.size > PAGE_BYTES or lines + entry.lines > PAGE_LINES):
                return page, True
            size, lines = size + entry.size, lines + entry.lines
            page.append(source.block(place))
        return page, False

    def blocks(self, places: dict[tuple[str, str], int]) -> Iterator[Logged]:
        """Iterate over blocks, oldest first by the clocks of their hosts.

        ``places``: the number of blocks already read, keyed by task and stream. Reading continues after these blocks,
        and the numbers are updated.
        """
        for _, source, place in self._from(lambda source: places.get((source.task, source.stream), 0)):
            block = source.block(place)
            places[source.task, source.stream] = place + 1
            yield block

    def lines(self, stream: str, first: int, count: int) -> Logged | None:
        """Return up to ``count`` lines of one stream, from line ``first`` on (if negative, counted from the end).

        The reader must have been opened for one task. Returns None if the stream is empty. Fewer lines are returned if
        they fill a page of ``PAGE_BYTES``. If lines could not be saved, later lines may be returned in their place.
        """
        source = next((source for source in self._sources if source.stream == stream), None)
        if source is None or not len(source.index):
            return None
        last = source.index[-1]
        total = last.first + last.lines
        first = max(0, first + total) if first < 0 else first
        place = bisect.bisect_right(source.index, first, key=lambda entry: entry.first) - 1
        place = max(place, 0)
        found: Logged | None = None
        size = 0
        while place < len(source.index) and size < PAGE_BYTES and (found is None or len(found.lines) < count):
            block = source.block(place)
            place += 1
            skip = max(0, first - block.first)
            if skip >= len(block.lines):
                continue
            if found is None:
                found = block
                found.first, found.lines = block.first + skip, block.lines[skip:]
            elif block.first == found.first + len(found.lines):
                found.lines += block.lines
            else:
                break  # lines are missing in between
            size += source.index[place - 1].size
        if found is None:
            return Logged(time=last.time, task=source.task, stream=stream, first=total, lines=[])
        del found.lines[count:]
        return found

    def total(self, stream: str) -> int:
        """Return the number of lines of a stream so far. The reader must have been opened for one task."""
        for source in self._sources:
            if source.stream == stream and len(source.index):
                return source.index[-1].first + source.index[-1].lines
        return 0

    def _at(self, places: list[int]) -> Iterator[tuple[int, tuple[_Source, int]]]:
        return enumerate(zip(self._sources, places, strict=True))

    def _from(self, start: Callable[[_Source], int]) -> Iterator[tuple[Entry, _Source, int]]:
        def of(source: _Source) -> Iterator[tuple[Entry, _Source, int]]:
            for place in range(start(source), len(source.index)):
                yield source.index[place], source, place

        return heapq.merge(*map(of, self._sources), key=lambda item: item[0].time)
