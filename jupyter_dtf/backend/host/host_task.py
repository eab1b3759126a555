"""The host's side of one task: the four pipes to its process, and the data that is read from them."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import struct
import termios
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from ...errors import Unavailable
from ...schema.events import Point, Points, encode_event, encode_points
from ...schema.frames import ABLE, ATTEMPT, BEAT, ENDS, HEADER, POINT, WORD, Beat
from ...schema.launch import Pace, ProfileOrder, Quiet, TaskSpec, leave_next, leave_profile, leave_without
from ..machine.processes import Handle, has_children, is_traced, stat_of
from .host_output import TaskOutput
from .task_watch import Seen, Steps, TaskWatch

logger = logging.getLogger(__name__)

READ_INTERVAL_S = 0.02
"""The minimum interval in seconds between two reads of a busy pipe. Data that arrives in between is read together."""
READS_AT_ONCE = 3
"""The number of reads of a pipe that has been quiet for long enough before the first pause: the end of a program must
not wait because the heartbeat before it has just been read.
"""
QUIET_S = 1.0
"""The time in seconds after which an idle task is reported."""
_PIPE_BYTES = 1 << 20


class PipeReader:
    """Reads a pipe on the event loop, on average at most once in ``READ_INTERVAL_S`` seconds.

    ``on_data(b"")`` signals the end.
    """

    def __init__(self, fd: int, on_data: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._on_data = on_data
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._paid_until = 0.0
        """The time until which the reads so far use up the pipe's rate; at most a few intervals in the future."""
        self.ended = asyncio.Event()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._ready)

    def _ready(self) -> None:
        self._loop.remove_reader(self._fd)
        now = self._loop.time()
        self._paid_until = max(self._paid_until, now) + READ_INTERVAL_S
        if not self._take():
            return
        if (wait_s := self._paid_until - now - (READS_AT_ONCE - 1) * READ_INTERVAL_S) > 0:
            self._pause = self._loop.call_later(wait_s, self._loop.add_reader, self._fd, self._ready)
        else:
            self._loop.add_reader(self._fd, self._ready)

    def _take(self) -> bool:
        try:
            data = os.read(self._fd, _PIPE_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        self._hand_on(data)
        if not data:
            os.close(self._fd)
            self.ended.set()
        return bool(data)

    def _hand_on(self, data: bytes) -> None:
        try:
            self._on_data(data)
        except Exception:  # keep reading, or the task would block forever in its next write
            logger.exception("Data from a task could not be processed: %.200r", data)

    def finish(self) -> None:
        """Read the data that is still in the pipe, then close the pipe, because the task is gone.

        This does not wait for the end of the pipe, because a process outside the task's group may still hold the pipe
        open, or even write to it.
        """
        if self._pause is not None:
            self._pause.cancel()
        if self.ended.is_set():
            return
        self._loop.remove_reader(self._fd)
        (left,) = struct.unpack("i", fcntl.ioctl(self._fd, termios.FIONREAD, b"\0" * 4))
        while left > 0:
            data = os.read(self._fd, min(left, _PIPE_BYTES))
            self._hand_on(data)
            left -= len(data)
        self._hand_on(b"")
        os.close(self._fd)
        self.ended.set()


class HostTask:
    """One task and its pipes.

    ``send(data)`` is called with each encoded event, ``on_program_end(attempt)`` when the task's program has succeeded
    and its outcome is saved, if its spec asks for that. ``keeps_output`` is whether output is saved.
    """

    def __init__(
        self,
        spec: TaskSpec,
        task_id: str,
        send: Callable[[bytes], None],
        on_program_end: Callable[[int], None],
        *,
        keeps_output: bool,
    ) -> None:
        self.spec = spec
        """The task's spec in the current attempt, or in the attempt that it has been asked to join."""
        self.id = task_id
        """The id that the task had when its process was forked."""
        self.pid = 0
        self.handle: Handle | None = None
        self.watch: TaskWatch | None = None
        self.steps: Steps | None = None
        self.killed = False
        """Whether this host has sent the task a signal to end it."""
        self.memory_bytes = 0
        """The task's memory usage at the last reading, in bytes."""
        self.why_ended = ""
        """Why the task was killed, if the reason must be reported to the run."""
        self.beats = 0
        """The number of heartbeats so far."""
        self.beat = Beat()
        """The last heartbeat."""
        self.forked: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._attempt = spec.attempt
        self._is_able = False
        self._send = send
        self._on_program_end = on_program_end
        self._frames = bytearray()
        self._next_point = 0
        out_read, out_write = _pipe()
        err_read, err_write = _pipe()
        events_read, events_write = _pipe()
        control_read, self._control = os.pipe()
        self._theirs = [out_write, err_write, events_write, control_read]
        run_dir = Path(spec.run_dir) if keeps_output else None
        self._output = TaskOutput(spec.task, run_dir, send, spec.attempt, spec.lines)
        self._readers = [
            PipeReader(events_read, self._on_frames),
            PipeReader(out_read, partial(self._on_output, "stdout")),
            PipeReader(err_read, partial(self._on_output, "stderr")),
        ]

    @property
    def descriptors(self) -> list[int]:
        """The task's ends of the pipes: stdout, stderr, events, control. ``hand_over`` closes them here."""
        return self._theirs

    def hand_over(self) -> None:
        """Close this process's copies of the task's ends, after the task's process has received them."""
        theirs, self._theirs = self._theirs, []
        for fd in theirs:
            os.close(fd)

    def is_forked(self, pid: int, on_gone: Callable[[], None]) -> None:
        """Record the process id. ``on_gone()`` is called when the process ends, even if its parent reports nothing."""
        self.pid = pid
        self.watch = TaskWatch(asyncio.get_running_loop().time())
        self.steps = Steps(asyncio.get_running_loop().time())
        with contextlib.suppress(OSError):  # the process has already ended and been reaped: its parent reports this
            self.handle = Handle(pid)
            asyncio.get_running_loop().add_reader(self.handle.fd, self._gone, on_gone)
        if not self.forked.done():
            self.forked.set_result(pid)

    def is_not_forked(self, why: str) -> None:
        """Make ``forked`` fail with the reason ``why``, because there will be no process."""
        if not self.forked.done():
            self.forked.set_exception(Unavailable(why))
            self.forked.exception()  # marks it as retrieved, in case nobody awaits it

    def _gone(self, tell: Callable[[], None]) -> None:
        if self.handle is not None:
            asyncio.get_running_loop().remove_reader(self.handle.fd)
        tell()

    def freezes(self, now: float, unseen_s: float) -> str:
        """Return a phrase that says why the task counts as frozen, or an empty string if it does not. ``unseen_s``
        comes from ``Gaps``.
        """
        stat = stat_of(self.pid) if self.pid else None
        if self.watch is None or stat is None or stat.has_ended or self.killed:
            return ""
        assert self.steps is not None
        if unseen_s:
            self.watch.unseen(now, unseen_s)
            self.steps.unseen(now, unseen_s)
        self.steps.look(now, self.beat.steps, stat.cpu_s)
        asked = stat.is_stopped or self.watch.suspects(now) or self.steps.quiet_s(now) > QUIET_S
        seen = Seen(stat.state, asked and is_traced(self.pid), stat.cpu_s)
        if seen.is_traced:
            self.steps.word(now)
        return self.watch.look(now, seen, self.beats, can_beat=self.can_beat)

    def quiet(self, now: float) -> Quiet | None:
        """Return the report that the task is idle, or None. A task with child processes never counts as idle."""
        seconds = self.steps.quiet_s(now) if self.steps is not None and not self.killed else 0.0
        if self.steps is None or seconds < QUIET_S or has_children(self.pid):
            return None
        return Quiet(
            id=self.spec.id,
            seconds=seconds,
            steps=self.steps.count,
            longest_s=self.steps.longest_s,
            waits=self.beat.waits,
        )

    @property
    def pace(self) -> Pace | None:
        """The task's progress; None until its program has reported a step."""
        beat = self.beat
        return None if beat.step < 0 else Pace(id=self.spec.id, step=beat.step, at_s=beat.at_s, waited_s=beat.waited_s)

    def end_frozen(self, why: str) -> None:
        """Kill the frozen task, and its child processes with it."""
        self.why_ended = why
        self.signal(signal.SIGKILL)

    def signal(self, number: int) -> bool:
        """Send a signal to the task's process group. Returns False if the task's process is not known yet."""
        self.killed = True
        if self.handle is not None:
            self.handle.signal_group(number)
        return self.handle is not None

    def ask_to_stop(self) -> None:
        self._say(b"s")

    def ask_for_checkpoint(self) -> None:
        """Ask the task's program to write a checkpoint at the end of the current step."""
        self._say(b"c")

    @property
    def can_go_over(self) -> bool:
        """Whether the process can join the run's next attempt: it has reported that it can, and is still running."""
        stat = stat_of(self.pid) if self._is_able and not self.killed else None
        return stat is not None and not stat.has_ended and not stat.is_stopped

    @property
    def goes_over(self) -> bool:
        """Whether the task has been asked to join another attempt but has not joined it yet."""
        return self.spec.attempt != self._attempt

    def go_over(self, spec: TaskSpec) -> None:
        """Ask the task to join the next attempt, with this spec. Raises OSError if the spec cannot be written."""
        leave_next(spec)
        self.spec = spec
        self._say(b"n")

    def profile(self, order: ProfileOrder) -> None:
        """Ask the task to trace steps. Raises OSError if ``order`` cannot be written."""
        leave_profile(Path(self.spec.task_dir), order)
        self._say(b"p")

    def tell_without(self, tasks: list[str]) -> None:
        """Notify the task of the run's lost tasks that cannot be restarted on any host. Raises OSError if the list
        cannot be written.
        """
        leave_without(Path(self.spec.task_dir), tasks)
        self._say(b"w")

    def tell_work_done(self) -> None:
        """Notify the task that no task of the run has work left."""
        self._say(b"e")

    def _say(self, word: bytes) -> None:
        with contextlib.suppress(OSError):  # the task has ended
            os.write(self._control, word)

    def finish(self, why: str = "The task ended while it was being forked") -> None:
        """Read the remaining data from the pipes and close everything, because the process is gone.

        If a caller is still waiting for the fork, the wait fails with ``why``. All steps are attempted; then the first
        exception is raised.
        """
        if self.handle is not None:
            asyncio.get_running_loop().remove_reader(self.handle.fd)
            self.handle.close()
        self.is_not_forked(why)
        wrong: list[Exception] = []
        readers = [reader.finish for reader in self._readers]
        for work in (self.hand_over, *readers, self._output.finish, self._close_control):
            try:
                work()
            except Exception as error:
                wrong.append(error)
        if wrong:
            raise wrong[0]

    def _close_control(self) -> None:
        control, self._control = self._control, -1
        if control >= 0:
            os.close(control)

    @property
    def can_beat(self) -> bool:
        """Whether heartbeats could arrive: a program that has replaced the task's program (exec) sends none."""
        return not self._readers[0].ended.is_set()

    def report(self, step: float, values: dict[str, float]) -> None:
        """Add a point measured by the host (CPU, memory) to the task's own points."""
        self._points([encode_points([Point(step, time.time(), values)])])

    def _on_output(self, stream: str, data: bytes) -> None:
        self._said_something()
        self._output.streams[stream](data)

    def _said_something(self) -> None:
        if self.steps is not None:
            self.steps.word(asyncio.get_running_loop().time())

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
            elif kind == BEAT:
                self.beats, self.beat = self.beats + 1, msgspec.msgpack.decode(body, type=Beat)
            elif kind == ABLE:
                self._is_able = bool(WORD.unpack(body)[0])
            elif kind == ATTEMPT:
                self._points(points)
                points = []
                (self._attempt,) = WORD.unpack(body)
                self._next_point = 0
                self._output.begin_attempt(self._attempt)
            elif kind == ENDS:
                self._points(points)
                points = []
                if self.spec.says_when_done:
                    self._on_program_end(self._attempt)
            else:
                self._points(points)
                points = []
                self._said_something()
                self._send(body)
            position = end
        self._points(points)
        del frames[:position]

    def _points(self, points: list[bytes]) -> None:
        if points:
            event = Points(
                time=time.time(),
                task=self.spec.task,
                attempt=self._attempt,
                first=self._next_point,
                count=len(points),
                data=b"".join(points),
            )
            self._next_point += len(points)
            self._send(encode_event(event))


def _pipe() -> tuple[int, int]:
    read, write = os.pipe()
    with contextlib.suppress(OSError):  # the user's pipe memory may be used up; the default size is sufficient
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return read, write
