"""A barrier between the tasks of one machine, based on words in shared memory and the kernel's futexes."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ....schema.disk_space import allocate
from .. import time_accounts
from ..context import check_gang, peer_lost
from .calls import MARK_BYTES, DifferentCalls, differ, mark, same, text_of
from .deadlocks import LOOK_S, Wait, Watch

_LINE = 64  # bytes: each task's words are in a cache line of their own
_ARRIVED, _PID, _STATE = 0, 1, 2  # indices of 32-bit words in that line
_HERE, _LEFT, _FAILED = 0, 1, 2

JOINED = mark("hvd.join")
"""The mark of a task that has joined because it has no more data."""

_SPIN_S = 200e-6  # about the time of a wake-up by the kernel on a busy machine

_FUTEX_WAIT, _FUTEX_WAKE = 0, 1
_SYS_FUTEX = 202  # on x86-64, on whose memory ordering this module also relies

_libc = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


_LOOK = _Timespec(0, int(LOOK_S * 1e9))


class Meeting:
    """One task's part in a barrier of ``tasks`` (names in rank order), in shared memory at ``path``. Not thread-safe.

    ``stalled(missing, what)`` is called, in the first of the waiting tasks, once per wait that has lasted
    ``stall_s`` seconds, with the names of missing tasks and the call. ``lookout`` detects deadlocks; ``ranks`` are the
    tasks' ranks in the run.
    """

    def __init__(
        self,
        path: Path,
        rank: int,
        tasks: Sequence[str],
        *,
        stall_s: float,
        stalled: Callable[[list[str], str], None],
        lookout: Watch | None = None,
        ranks: Sequence[int] | None = None,
    ) -> None:
        self.count = 0
        """The number of times that this task has reached the barrier."""
        self.interrupted = False
        """Whether another task left with a failure while this one was waiting for it."""
        self._given_up = ""
        self._told = threading.Event()
        self.word_s = 0.0
        """The time in seconds to wait for another thread's ``give_up`` when a task has left or died."""
        self._group = path.name
        self._lookout = lookout
        self._posted = False
        self._rank = rank
        self._ranks = list(range(len(tasks)) if ranks is None else ranks)
        self._tasks = list(tasks)
        self._stall_s = stall_s
        self._stalled = stalled
        size = len(self._tasks)
        memory = mapped(path, size * (_LINE + 2 * MARK_BYTES))
        lines = memoryview(memory)
        self._words = lines[: size * _LINE].cast("I")
        self._texts = lines[size * _LINE :]
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._others = [r for r in range(size) if r != rank]
        self._spin_s = _SPIN_S if size <= len(os.sched_getaffinity(0)) else 0.0
        self._words[rank * 16 + _PID] = os.getpid()

    def meet(self, call: bytes = b"") -> tuple[int, ...]:
        """Wait until every task has called this method as often as this task. Returns the ranks of joined tasks.

        ``call`` is the mark of the call; if given, it must be the same in all tasks, except for JOINED. Raises
        DifferentCalls in all tasks if the marks differ, and RuntimeError if a missing task will never arrive.
        """
        self.count += 1
        target = self.count & 0xFFFFFFFF
        if call:
            at = self._text(self._rank)
            self._texts[at : at + MARK_BYTES] = call
        self._words[self._rank * 16 + _ARRIVED] = target
        self._wake()
        for other in self._others:
            self._await(other, target, call)
        if self._lookout is not None and self._posted:
            self._posted = False
            self._lookout.over(self._group)
        if call:
            for other in self._others:
                at = self._text(other)
                if not same(self._texts[at : at + MARK_BYTES], call):
                    return self._settle()
        return ()

    def calls(self) -> list[bytes]:
        """Return the marks of the tasks' calls, in rank order."""
        starts = [self._text(rank) for rank in range(len(self._tasks))]
        return [self._texts[at : at + MARK_BYTES].tobytes() for at in starts]

    def _settle(self) -> tuple[int, ...]:
        calls = self.calls()
        joined = tuple(rank for rank, call in enumerate(calls) if same(call, JOINED))
        others = {rank: text_of(call) for rank, call in enumerate(calls) if rank not in joined}
        if len({calls[rank] for rank in others}) > 1:
            order = sorted(others, key=lambda rank: rank != self._rank)  # this task's own call first
            raise differ({self._tasks[rank]: others[rank] for rank in order})
        return joined

    def give_up(self, why: str) -> None:
        """Make waits in this task raise DifferentCalls with this reason. Called in another thread."""
        self._given_up = why
        self._told.set()

    def wake(self) -> None:
        """Make waits in this task, and in tasks that wait for the same tasks, check again. Called in another thread."""
        for other in self._others:
            self._wake(other)

    def leave(self, failed: bool) -> None:
        """Leave permanently. Tasks that wait for this task, now or later, raise an error."""
        self._words[self._rank * 16 + _STATE] = _FAILED if failed else _LEFT
        self._wake()

    def _text(self, rank: int) -> int:
        # Two alternating slots suffice: a task that has reached the next barrier cannot leave it without this task.
        return (2 * rank + self.count % 2) * MARK_BYTES

    def _has_come(self, other: int, target: int) -> bool:
        return not (self._words[other * 16 + _ARRIVED] - target) & 0x80000000

    def _await(self, other: int, target: int, call: bytes) -> None:
        if self._has_come(other, target):
            return
        begin = time.perf_counter()
        try:
            self._wait_for(other, target, call, begin)
        finally:
            time_accounts.waited(time.perf_counter() - begin)

    def _wait_for(self, other: int, target: int, call: bytes, begin: float) -> None:
        end = begin + self._spin_s
        while time.perf_counter() < end:
            if self._has_come(other, target):
                return
            os.sched_yield()
        stall_at = begin + self._stall_s
        look_at = begin + LOOK_S
        index = other * 16 + _ARRIVED
        while not self._has_come(other, target):
            seen = self._words[index]
            if not (seen - target) & 0x80000000:
                return
            try:
                self._check(other)
            except RuntimeError:
                if self._has_come(other, target):  # it arrived right before it ended
                    return
                self.interrupted = self._words[other * 16 + _STATE] == _FAILED
                if why := self._why_gone(self._wait(target, call), self._ranks[other]):
                    raise DifferentCalls(why) from None
                raise
            check_gang()
            now = time.perf_counter()
            if now >= stall_at:
                stall_at = float("inf")
                self._say_who_is_missing(target, call)
            if now >= look_at:
                look_at = now + LOOK_S
                self._look(target, call)
            # This sleeps only if the word has not changed yet; ctypes releases the GIL during the call.
            _libc.syscall(
                _SYS_FUTEX, ctypes.c_void_p(self._address + 4 * index), _FUTEX_WAIT, seen, ctypes.byref(_LOOK), None, 0
            )

    def _look(self, target: int, call: bytes) -> None:
        """Raise DifferentCalls if this wait would never end. The other tasks then stop waiting for this task."""
        verdict = self._given_up
        if not verdict and self._lookout is not None:
            self._posted = True
            verdict = self._lookout.look(self._wait(target, call))
        if verdict:
            if self._lookout is not None:
                self._lookout.go(self._group, verdict)
            self.leave(failed=True)
            raise DifferentCalls(verdict)

    def _why_gone(self, wait: Wait, rank: int) -> str:
        """Return why that task has left, if the reason is that tasks have made different calls; otherwise, an empty
        string.
        """
        if self._lookout is not None:
            return self._lookout.why_gone(wait, rank)
        self._told.wait(self.word_s)
        return self._given_up

    def _wait(self, target: int, call: bytes) -> Wait:
        missing = [self._ranks[r] for r in self._others if not self._has_come(r, target)]
        return Wait(self._group, self.count, text_of(call), tuple(self._ranks), tuple(missing))

    def _say_who_is_missing(self, target: int, call: bytes) -> None:
        come = [rank for rank in range(len(self._tasks)) if self._has_come(rank, target)]
        if come[0] == self._rank:
            missing = [name for rank, name in enumerate(self._tasks) if rank not in come]
            if missing:
                self._stalled(missing, text_of(call))

    def _wake(self, rank: int | None = None) -> None:
        """Wake the tasks that are waiting for the task ``rank``, by default this task."""
        address = ctypes.c_void_p(self._address + (self._rank if rank is None else rank) * _LINE + 4 * _ARRIVED)
        _libc.syscall(_SYS_FUTEX, address, _FUTEX_WAKE, len(self._tasks), None, None, 0)

    def _check(self, other: int) -> None:
        name = self._tasks[other]
        pid = self._words[other * 16 + _PID]
        alive = not pid or _alive(pid)  # checked first: a task may end right after it has set its state to left
        state = self._words[other * 16 + _STATE]
        if state != _HERE:
            how = "failed" if state == _FAILED else "ended"
            raise peer_lost(f"The task {name} has {how} while other tasks were waiting for it in a collective")
        if not alive:
            raise peer_lost(f"The task {name} (process {pid}) has died")


def mapped(path: Path, nbytes: int) -> mmap.mmap:
    """Map ``nbytes`` of a file, creating it if necessary; new bytes are zero."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        allocate(descriptor, path, nbytes, "The data that tasks share")
        return mmap.mmap(descriptor, nbytes)
    finally:
        os.close(descriptor)


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
