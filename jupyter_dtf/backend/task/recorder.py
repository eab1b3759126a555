"""The task's end of the event pipe: what ``report`` costs, and why nothing reported is lost.

A frame is written to a pipe as it is reported: one system call of about a microsecond, and from then on the kernel
keeps it for the host whatever becomes of this process, SIGKILL included. When the pipe is full (the host is slow)
frames wait in memory and a thread sends them on, so that the program never waits for its viewers.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from ...schema.events import AnyEvent, Point, encode_event
from ...schema.frames import EVENT, HEADER, POINT


class Recorder:
    """Sends points and events to the host. Safe to call from any thread. Owns the file descriptor given to it."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._encode = msgspec.msgpack.Encoder().encode
        self._lock = threading.Lock()
        self._backlog: deque[bytes] = deque()
        self._drained = threading.Condition(self._lock)
        self._sender: threading.Thread | None = None
        self._closed = False
        self._step = -1.0

    def report(self, step: float | None, values: Mapping[str, Any]) -> None:
        """Append one point: each value becomes a float. ``step`` None: one more than the last.

        Raises TypeError or ValueError if a value is not a number.
        """
        self._step = self._step + 1 if step is None else float(step)
        point = Point(self._step, time.time(), {name: float(value) for name, value in values.items()})
        self._send(POINT, self._encode(point))

    def emit(self, event: AnyEvent) -> None:
        """Append one event."""
        self._send(EVENT, encode_event(event))

    def close(self) -> None:
        """Wait until all has been handed over, then close the pipe."""
        with self._lock:
            self._closed = True
            while self._backlog:
                self._drained.wait()
        os.close(self._fd)

    def _send(self, kind: int, body: bytes) -> None:
        frame = HEADER.pack(len(body), kind) + body
        with self._lock:
            if self._closed:
                return
            if not self._backlog:
                frame = frame[self._write(frame) :]
                if not frame:
                    return
            self._backlog.append(frame)
            if self._sender is None:
                self._sender = threading.Thread(target=self._drain, name="dtf-recorder", daemon=True)
                self._sender.start()

    def _write(self, frame: bytes) -> int:
        try:
            return os.write(self._fd, frame)
        except BlockingIOError:
            return 0
        except BrokenPipeError:  # the host is gone, and this process will be ended
            return len(frame)

    def _drain(self) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        while True:
            poll.poll()
            with self._lock:
                while self._backlog:
                    rest = self._backlog[0][self._write(self._backlog[0]) :]
                    if rest:
                        self._backlog[0] = rest
                        break
                    self._backlog.popleft()
                if not self._backlog:
                    self._sender = None
                    self._drained.notify_all()
                    return
