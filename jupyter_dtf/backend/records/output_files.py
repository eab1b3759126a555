"""The files of a run's output: for each stream of each task, a file of lines and a file with their index.

``<run_dir>/task-output/worker-1.stdout`` has the lines as they were printed; a line that ended in a carriage return
still has it, before the line feed. ``worker-1.stdout.index`` has an entry for each block that was written: the line
numbers, the position in the file, and the time. Times ascend over all streams of a host, so that the blocks of several
files can be sorted into the order in which they arrived.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
from collections import deque
from pathlib import Path
from typing import NamedTuple

from .run_directory import remove_part

DIRECTORY = "task-output"
STREAMS = ("stdout", "stderr")
RETRY_S = 2.0
"""Seconds between two attempts to write after a disk error."""
MOST_WAITING_BYTES = 1 << 20
"""The maximum number of bytes per stream that are kept in memory while its file cannot be written."""

_ENTRY = struct.Struct("<QQQQd")


class Entry(NamedTuple):
    """One block: ``lines`` lines from number ``first``, ``size`` bytes from ``offset``, written at ``time``."""

    first: int
    lines: int
    offset: int
    size: int
    time: float

    def encode(self) -> bytes:
        return _ENTRY.pack(*self)

    @classmethod
    def decode(cls, data: bytes) -> Entry:
        return cls._make(_ENTRY.unpack(data))


ENTRY_BYTES = _ENTRY.size


def lines_file(run_dir: Path, task: str, stream: str) -> Path:
    """Return the path of the file with the lines of one stream of a task."""
    return run_dir / DIRECTORY / f"{task.replace(':', '-')}.{stream}"


def index_file(lines: Path) -> Path:
    """Return the path of the index of a file of lines."""
    return lines.with_name(lines.name + ".index")


def source_of(index: Path) -> tuple[str, str]:
    """Return the task and stream of an index file, derived from its name."""
    task, stream, _ = index.name.rsplit(".", 2)
    job, _, number = task.rpartition("-")
    return f"{job}:{number}", stream


def remove_output(run_dir: Path) -> None:
    """Delete a run's output, and the run's directory if it is then empty."""
    remove_part(run_dir, DIRECTORY)


class Clock:
    """Gives each block a later time than the block before it."""

    def __init__(self) -> None:
        self._last = 0.0

    def after(self, time_: float) -> None:
        """Make all further times later than ``time_``, the time of a block from another writer."""
        self._last = max(self._last, time_)

    def now(self) -> float:
        self._last = max(time.time(), self._last + 1e-6)
        return self._last


class OutputWriter:
    """Writes one stream of a task to its files, which are created when the first line is written.

    Output that cannot be written is kept in memory, up to ``MOST_WAITING_BYTES``, and written later. Meanwhile,
    ``error`` is the reason, and ``lost`` counts the lines that could not be kept. ``goes_on``: whether to append to the
    output of an earlier attempt of the task; ``last`` is then the last block of that output, if there is any.
    """

    def __init__(self, lines: Path, *, goes_on: bool = False) -> None:
        self.error: OSError | None = None
        self.lost = 0
        self._path = lines
        self._lines = self._index = -1
        self._offset = self._entries = 0
        self.last = self._find_end() if goes_on else None
        self._waiting: deque[tuple[Entry, bytes]] = deque()
        self._waiting_bytes = 0
        self._not_before = 0.0

    def write(self, time_: float, first: int, count: int, block: bytes) -> None:
        """Write ``count`` lines, each ended by a line feed. The first one has the number ``first``."""
        self._waiting.append((Entry(first, count, 0, len(block), time_), block))
        self._waiting_bytes += len(block)
        if self.error is None or time.monotonic() >= self._not_before:
            self._write_waiting()
        while self._waiting_bytes > MOST_WAITING_BYTES and len(self._waiting) > 1:
            entry, _ = self._waiting.popleft()
            self._waiting_bytes -= entry.size
            self.lost += entry.lines

    def _find_end(self) -> Entry | None:
        """Return the last complete block: a host that was killed may have left a partial one after it."""
        try:
            index = index_file(self._path).read_bytes()
            size = self._path.stat().st_size
        except OSError:
            return None
        for at in range(len(index) // ENTRY_BYTES, 0, -1):
            entry = Entry.decode(index[(at - 1) * ENTRY_BYTES : at * ENTRY_BYTES])
            if entry.offset + entry.size <= size:
                self._offset, self._entries = entry.offset + entry.size, at
                return entry
        return None

    def close(self) -> None:
        """Write the remaining output if this is possible now, and close the files."""
        if self._waiting:
            self._write_waiting()
        self.lost += sum(entry.lines for entry, _ in self._waiting)
        self._waiting.clear()
        for fd in (self._lines, self._index):
            if fd >= 0:
                os.close(fd)
        self._lines = self._index = -1

    def _write_waiting(self) -> None:
        try:
            while self._waiting:
                entry, block = self._waiting[0]
                self._append(entry._replace(offset=self._offset), block)
                self._waiting.popleft()
                self._waiting_bytes -= len(block)
        except OSError as error:
            self.error = error
            self._not_before = time.monotonic() + RETRY_S
        else:
            self.error = None

    def _append(self, entry: Entry, block: bytes) -> None:
        """Append both the lines and the index entry, or neither, so that the index describes everything in the file."""
        if self._index < 0:
            self._open()
        try:
            _write_all(self._lines, block, self._offset)
            _write_all(self._index, entry.encode(), self._entries * ENTRY_BYTES)
        except OSError:
            for fd, size in ((self._lines, self._offset), (self._index, self._entries * ENTRY_BYTES)):
                with contextlib.suppress(OSError):
                    os.ftruncate(fd, size)
            raise
        self._offset += len(block)
        self._entries += 1

    def _open(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        if self._lines < 0:
            self._lines = os.open(self._path, flags, 0o600)
            os.ftruncate(self._lines, self._offset)
        self._index = os.open(index_file(self._path), flags, 0o600)
        os.ftruncate(self._index, self._entries * ENTRY_BYTES)


def _write_all(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view = view[written:]
        offset += written
