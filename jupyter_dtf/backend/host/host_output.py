"""A task's output on its host. All output is written to files; viewers get as much of it as a person can read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ...schema.events import Logged, Note, encode_event
from ..records.output_files import STREAMS, Clock, OutputWriter, lines_file

MAX_LINE_BYTES = 65_536
"""The maximum length of a line in bytes. Longer lines are split."""
BURST_BYTES = 1 << 20
"""The maximum amount of output, in bytes per stream, that is sent to viewers without delay. Output uses up this
allowance, which is refilled at ``BYTES_PER_S``.
"""
BYTES_PER_S = 64 << 10
TAIL_BYTES = 32 << 10
"""The number of bytes at the end of a stream that are sent after output that was too fast to be sent in full."""
TAIL_AFTER_S = 0.25
_OVERHEAD_BYTES = 256
"""The size of an event in bytes in addition to its lines."""

_clock = Clock()

Send = Callable[[bytes], None]


class TaskOutput:
    """The output of one task. ``send(data)`` is called with each encoded event; ``streams`` are called with the data
    read from the pipes.

    ``printed`` is the number of lines that earlier attempts are known to have printed to each stream. Line numbers
    continue from these numbers.
    """

    def __init__(
        self,
        task: str,
        run_dir: Path | None,
        send: Send,
        attempt: int = 0,
        printed: Mapping[str, int] | None = None,
    ) -> None:
        self._task = task
        self._attempt = attempt
        self._send = send
        self._files = {
            stream: OutputWriter(lines_file(run_dir, task, stream), goes_on=attempt > 0)
            for stream in STREAMS
            if run_dir
        }
        self._told = ""
        self.streams = {}
        for name in STREAMS:
            file, first = self._files.get(name), (printed or {}).get(name, 0)
            if file is not None and file.last is not None:  # the file may have more lines than were reported
                first = max(first, file.last.first + file.last.lines)
                _clock.after(file.last.time)
            stream = self.streams[name] = StreamOutput(task, name, send, file, attempt=attempt, first=first)
            stream.on_written = self._look

    def begin_attempt(self, attempt: int) -> None:
        """Attribute all further output to this attempt, in which the same process continues."""
        self._attempt = attempt
        for stream in self.streams.values():
            stream.begin_attempt(attempt)

    def finish(self) -> None:
        """Close the files at the end of the output, and report lines that could not be saved."""
        for file in self._files.values():
            file.close()
        if lost := sum(file.lost for file in self._files.values()):
            text = f"{lost} lines could not be saved. {self._told}"
            self._note("warning", f"Some output of {self._task} is lost", text)

    def _look(self) -> None:
        """Report when output can no longer be written to disk, and when it can be written again."""
        errors = [file.error for file in self._files.values() if file.error is not None]
        if errors and not self._told:
            error = errors[0]
            directory = Path(error.filename).parent if error.filename else ""
            self._told = f"{error.strerror}{f': {directory}' if directory else ''}"
            self._note(
                "warning",
                f"The output of {self._task} is not being saved",
                f"{self._told}. The last lines are kept in memory and written when space is available again",
            )
        elif not errors and self._told:
            self._told = ""
            self._note("info", f"The output of {self._task} is being saved again")

    def _note(self, level: str, title: str, text: str = "") -> None:
        note = Note(time=time.time(), attempt=self._attempt, level=level, title=title, text=text, task=self._task)
        self._send(encode_event(note))


class StreamOutput:
    """Splits one stream into lines, which go to a file and to viewers. An incomplete line is held back until its end
    arrives.

    A carriage return also ends a line and is kept, so that a viewer can overwrite the line with the next one, as
    progress bars do.
    """

    def __init__(
        self,
        task: str,
        stream: str,
        send: Send,
        file: OutputWriter | None = None,
        *,
        attempt: int = 0,
        first: int = 0,
    ) -> None:
        self._file = file
        self._viewers = _ForViewers(task, stream, send, attempt, kept=file is not None)
        self._rest = b""
        self._next = first
        self.on_written: Callable[[], None] = lambda: None

    def __call__(self, data: bytes) -> None:
        """Process data that was read. Empty data marks the end of the stream."""
        for start in range(0, len(data), MAX_LINE_BYTES):
            self._take(data[start : start + MAX_LINE_BYTES], last=False)
        if not data:
            self._take(b"", last=True)
            self._viewers.flush()
        self.on_written()

    def begin_attempt(self, attempt: int) -> None:
        """Flush the output of the previous attempt, and begin a new attempt."""
        self._viewers.flush()
        self._viewers.attempt = attempt

    def _take(self, data: bytes, *, last: bool) -> None:
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        block, rest = data[:end].replace(b"\r\n", b"\n"), data[end:]
        drawn_over = rest.rfind(b"\r", 0, -1) + 1  # the last byte may be the first half of \r\n
        if drawn_over:
            block += rest[:drawn_over] + b"\n"
            rest = rest[drawn_over:]
        if rest and (last or len(rest) > MAX_LINE_BYTES):
            block += rest + b"\n"
            rest = b""
        self._rest = rest
        if block:
            count = block.count(b"\n")
            now = _clock.now()
            if self._file is not None:
                self._file.write(now, self._next, count, block)
            self._viewers.add(now, self._next, count, block)
            self._next += count


class _ForViewers:
    """Sends lines immediately while a person could keep up; otherwise sends only the last lines, at intervals."""

    def __init__(self, task: str, stream: str, send: Send, attempt: int, *, kept: bool) -> None:
        self._task = task
        self.attempt = attempt
        self._stream = stream
        self._send = send
        self._kept = kept
        self._budget = float(BURST_BYTES)
        self._at = time.monotonic()
        self._waiting = b""
        self._end = 0  # the number of the line after the last waiting one
        self._time = 0.0
        self._later: asyncio.TimerHandle | None = None

    def add(self, time_: float, first: int, count: int, block: bytes) -> None:
        now = time.monotonic()
        self._budget = min(BURST_BYTES, self._budget + (now - self._at) * BYTES_PER_S)
        self._at = now
        self._waiting += block
        self._end, self._time = first + count, time_
        if self._later is None and len(self._waiting) + _OVERHEAD_BYTES <= self._budget:
            self.flush()
            return
        if len(self._waiting) > TAIL_BYTES:  # everything before the tail is only in the file
            begin = self._waiting.find(b"\n", len(self._waiting) - TAIL_BYTES - 1, -1) + 1
            begin = begin or self._waiting.rfind(b"\n", 0, -1) + 1  # a single line is longer than the tail
            self._waiting = self._waiting[begin:]
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(TAIL_AFTER_S, self.flush)

    def flush(self) -> None:
        """Send the waiting lines."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if not self._waiting:
            return
        lines = self._waiting.removesuffix(b"\n").split(b"\n")
        text = [line.decode("utf-8", "replace") for line in lines]
        event = Logged(
            time=self._time,
            task=self._task,
            attempt=self.attempt,
            stream=self._stream,
            first=self._end - len(lines),
            lines=text,
            kept=self._kept,
        )
        self._budget = max(0.0, self._budget - len(self._waiting) - _OVERHEAD_BYTES)
        self._waiting = b""
        self._send(encode_event(event))
