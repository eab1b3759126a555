"""One task as its host holds it: the four pipes to its process, and what comes out of them."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import Callable

from ..errors import Unavailable
from ..schema.events import Logged, Point, Points, encode_event, encode_points
from ..schema.frames import HEADER, POINT
from ..schema.launch import TaskSpec

READ_INTERVAL_S = 0.02
"""Between two reads of a pipe: what arrives meanwhile is taken in one go."""
_PIPE_BYTES = 1 << 20
_MAX_LINE = 65_536


class PipeReader:
    """Reads a pipe on the event loop, at most every ``READ_INTERVAL_S``; ``on_data(b"")`` is the end."""

    def __init__(self, fd: int, on_data: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._on_data = on_data
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self.ended = asyncio.Event()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._ready)

    def _ready(self) -> None:
        self._loop.remove_reader(self._fd)
        if self._take():
            self._pause = self._loop.call_later(READ_INTERVAL_S, self._loop.add_reader, self._fd, self._ready)

    def _take(self) -> bool:
        try:
            data = os.read(self._fd, _PIPE_BYTES)
        except BlockingIOError:
            return True
        self._on_data(data)
        if not data:
            os.close(self._fd)
            self.ended.set()
        return bool(data)

    def finish(self) -> None:
        """Take what is there and end: the writer is gone."""
        if self._pause is not None:
            self._pause.cancel()
        if self.ended.is_set():
            return
        self._loop.remove_reader(self._fd)
        while True:
            try:
                data = os.read(self._fd, _PIPE_BYTES)
            except BlockingIOError:  # something outside the task's process group still holds the pipe
                data = b""
            self._on_data(data)
            if not data:
                os.close(self._fd)
                self.ended.set()
                return


class HostTask:
    """A task's pipes. ``send(data)`` gets each encoded event."""

    def __init__(self, spec: TaskSpec, task_id: str, send: Callable[[bytes], None]) -> None:
        self.spec = spec
        self.id = task_id
        self.pid = 0
        self.forked: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._send = send
        self._frames = bytearray()
        self._next_point = 0
        out_read, out_write = _pipe()
        err_read, err_write = _pipe()
        events_read, events_write = _pipe()
        control_read, self._control = os.pipe()
        self._theirs = [out_write, err_write, events_write, control_read]
        self._readers = [
            PipeReader(events_read, self._on_frames),
            PipeReader(out_read, _Lines(spec.task, "stdout", send)),
            PipeReader(err_read, _Lines(spec.task, "stderr", send)),
        ]

    @property
    def descriptors(self) -> list[int]:
        """The task's ends: stdout, stderr, events, control. Given away with ``hand_over``."""
        return self._theirs

    def hand_over(self) -> None:
        """Close the task's ends here, once its process has them."""
        for fd in self._theirs:
            os.close(fd)
        self._theirs = []

    def ask_to_stop(self) -> None:
        self._say(b"s")

    def tell_work_done(self) -> None:
        """No task of the run works any more."""
        self._say(b"e")

    def _say(self, word: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self._control, word)

    def finish(self) -> None:
        """Take what is left in the pipes: the process is gone."""
        self.hand_over()
        for reader in self._readers:
            reader.finish()
        os.close(self._control)
        if not self.forked.done():
            self.forked.set_exception(Unavailable("The warm process went away while the task was being forked"))
            self.forked.exception()  # whether anybody waits for it or not

    def report(self, step: float, values: dict[str, float]) -> None:
        """Put a point of the host's own among the task's (its CPU and memory)."""
        self._points([encode_points([Point(step, time.time(), values)])])

    def _on_frames(self, data: bytes) -> None:
        self._frames += data
        frames = self._frames
        position = 0
        points: list[bytes] = []
        while len(frames) - position >= HEADER.size:
            length, kind = HEADER.unpack_from(frames, position)
            start = position + HEADER.size
            end = start + length
            if end > len(frames):
                break
            body = bytes(frames[start:end])
            if kind == POINT:
                points.append(body)
            else:
                self._points(points)
                points = []
                self._send(body)
            position = end
        self._points(points)
        del frames[:position]

    def _points(self, points: list[bytes]) -> None:
        if points:
            event = Points(
                time=time.time(),
                task=self.spec.task,
                first=self._next_point,
                count=len(points),
                data=b"".join(points),
            )
            self._next_point += len(points)
            self._send(encode_event(event))


class _Lines:
    """Cuts output into lines; a line that is not ended yet waits for its end.

    A carriage return ends a line too and stays with it, so that a viewer can draw the next one over it: progress bars.
    """

    def __init__(self, task: str, stream: str, send: Callable[[bytes], None]) -> None:
        self._task = task
        self._stream = stream
        self._send = send
        self._rest = b""
        self._next = 0

    def __call__(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        lines = [line.removesuffix(b"\r") for line in lines]
        drawn_over = self._rest.rfind(b"\r", 0, -1) + 1  # the last byte may be the first half of \r\n
        if drawn_over:
            lines.append(self._rest[:drawn_over])
            self._rest = self._rest[drawn_over:]
        if self._rest and (not data or len(self._rest) > _MAX_LINE):
            lines.append(self._rest)
            self._rest = b""
        if lines:
            text = [line.decode("utf-8", "replace") for line in lines]
            event = Logged(time=time.time(), task=self._task, stream=self._stream, first=self._next, lines=text)
            self._next += len(lines)
            self._send(encode_event(event))


def _pipe() -> tuple[int, int]:
    read, write = os.pipe()
    with contextlib.suppress(OSError):  # a busy user may be short of pipe memory; the default will do
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return read, write
