"""The task's end of the event pipe, which makes ``report`` cheap and loses nothing.

Each frame is written to a pipe immediately: one system call of about a microsecond. From then on the kernel keeps it
for the host, even if this process is killed by SIGKILL. When the pipe is full (the host is slow), frames wait in memory
and a thread sends them later, so that the program never waits for its viewers.
"""

from __future__ import annotations

import math
import os
import select
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from ...errors import InvalidInput
from ...schema.events import AnyEvent, Note, Point, TaskEvent, encode_event
from ...schema.frames import ABLE, ATTEMPT, BEAT, ENDS, EVENT, HEADER, POINT, WORD
from ...schema.metrics import in_words, without_form
from ...schema.printable import printable
from . import time_accounts

MOST_OF_A_NAME = 1_000
"""The maximum length of a metric's name in characters."""
_CAUSES = (
    "Values computed from it are not finite either. Common causes: a learning rate that is too high, examples or "
    "labels that contain NaN, a logarithm of zero or a division by zero."
)


def number(value: Any, name: str) -> float:
    """Convert a value to a float. Raises InvalidInput if it is not a number."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"`{printable(name, 100)}` must be a number, got {value!r:.100}", field=name) from None


class Recorder:
    """Sends points and events to the host. Thread-safe. Owns the file descriptor passed to it.

    The first non-finite value of each metric is reported as a warning from ``task``.
    """

    def __init__(self, fd: int, task: str = "", attempt: int = 0) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._task = task
        self._attempt = attempt
        self._not_finite: set[str] = set()
        self._encode = msgspec.msgpack.Encoder().encode
        self._lock = threading.Lock()
        self._backlog: deque[bytes] = deque()
        self._drained = threading.Condition(self._lock)
        self._sender: threading.Thread | None = None
        self._closed = False
        self._step = -1.0
        self.reported = 0
        """The number of calls to ``report``."""
        self.pace = -1.0, 0.0, 0.0
        """The last reported step, its time on the monotonic clock, and the seconds that this task had waited for others
        by that time.
        """
        self._began = time.time()

    def report(self, step: float | None, values: Mapping[str, Any]) -> None:
        """Append one point, converting each value to a float. ``step`` defaults to the last step plus one.

        Raises InvalidInput if a value is not a number, or the step is not a finite number.
        """
        try:
            at = self._step + 1 if step is None else float(step)
            point = Point(at, time.time(), {name: float(value) for name, value in values.items()})
            body = self._encode(point)
        except (TypeError, ValueError, OverflowError):
            point = self._mended(step, values)
            at, body = point.step, self._encode(point)
        if not math.isfinite(at):
            raise InvalidInput(f"`step` must be a finite number, got {step!r:.100}", field="step")
        self._step = at
        self.reported += 1
        self.pace = at, time.monotonic(), time_accounts.waited_s
        self._send(POINT, body)
        if not math.isfinite(sum(point.values.values())):  # a quick check; the sum of large values may overflow too
            self._warn(point)

    @property
    def last_step(self) -> float:
        """The step of the last reported point; -1 before the first."""
        return self._step

    def measure(self, figures: Mapping[str, float]) -> None:
        """Append a point of machine figures. Its step is the time in seconds since this recorder was created."""
        now = time.time()
        self._send(POINT, self._encode(Point(round(now - self._began, 1), now, dict(figures))))

    def _mended(self, step: float | None, values: Mapping[str, Any]) -> Point:
        """Return a point with the metrics' names made printable. Raises InvalidInput if a value is not a number."""
        at = self._step + 1 if step is None else number(step, "step")
        named = {printable(name, MOST_OF_A_NAME): number(value, name) for name, value in values.items()}
        return Point(at, time.time(), named)

    def _warn(self, point: Point) -> None:
        """Warn about metrics that are non-finite for the first time."""
        step = f"{point.step:.0f}" if point.step.is_integer() else f"{point.step:g}"
        for metric, value in point.values.items():
            if math.isfinite(value) or without_form(metric) in self._not_finite:
                continue
            self._not_finite.add(without_form(metric))
            self.emit(
                Note(
                    time=point.time,
                    level="warning",
                    title=f"{metric} became {in_words(value)} at step {step}" + f" on {self._task}" * bool(self._task),
                    text=_CAUSES,
                    task=self._task,
                    metric=metric,
                    step=point.step,
                )
            )

    def emit(self, event: AnyEvent) -> None:
        """Send one event, marked with the current attempt."""
        if isinstance(event, TaskEvent):
            event.attempt = self._attempt
        self._send(EVENT, encode_event(event))

    def begin_attempt(self, attempt: int) -> None:
        """Attribute everything that is sent from now on to ``attempt``."""
        self._attempt = attempt
        self._send(ATTEMPT, WORD.pack(attempt))

    def say_able(self, able: bool) -> None:
        """Report to the host whether this process can continue in another attempt."""
        self._send(ABLE, WORD.pack(able))

    def say_ends(self) -> None:
        """Report to the host that the program has succeeded and that its outcome is saved."""
        self._send(ENDS, b"")

    def beat(self, body: bytes) -> None:
        """Send a heartbeat, unless the pipe is full: a late heartbeat is worthless."""
        with self._lock:
            if not self._closed and not self._backlog:
                self._write(HEADER.pack(len(body), BEAT) + body)  # so few bytes are written atomically

    def close(self) -> None:
        """Wait until everything has been written, then close the pipe."""
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
        except BrokenPipeError:  # the host is gone, and this process will be killed
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
