"""Spares: forked processes that wait to become a task. Each becomes one task only, so programs share no state.

A rehearsed spare has set TensorFlow's number of threads and has trained a tiny model, so that a training run finishes
its first step in 3/4 of the time. Rehearsed spares are created only when no task has run for a moment, so that they do
not slow anything down.

A plain spare has made no preparations: even querying TensorFlow's number of threads would look for GPUs, which are not
assigned to a task until it begins. It saves the next task the time of a fork, which matters when short tasks follow one
another, as in a search. Plain spares are created after the first task, even while other tasks are running.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

_READY = b"r"
_MAX_MESSAGE = 4_096
REST_S = 1.0
"""The time in seconds between the last activity and the rehearsal of a spare. If one run follows another, the next one
then has the machine to itself, and no spare is started only to be killed.
"""
PLAIN = 2
"""The number of plain spares."""
PLAIN_REST_S = 0.02
"""The time in seconds between the start of the last task and the forking of plain spares, so that none is forked
between the tasks of one gang.
"""


@dataclass
class _Spare:
    pid: int
    socket: socket.socket
    threads: int
    """The number of threads for which it has rehearsed; 0 for a plain spare."""
    is_ready: bool = False


class Spares:
    """The spares of a warm process.

    Args:
        selector: The selector of the warm process's loop.
        fork: ``fork(child)`` forks, runs ``child()`` in the child process, and returns its pid in the parent process.
        become: ``become(spec_path, fds)`` runs the task in a spare and returns its exit status.
        kill: ``kill(pid)`` kills a spare.
        on_ready: Called with the number of rehearsed spares when another one is ready.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        fork: Callable[[Callable[[], int]], int],
        become: Callable[[str, list[int]], int],
        kill: Callable[[int], None],
        on_ready: Callable[[int], None],
    ) -> None:
        self._selector = selector
        self._fork = fork
        self._become = become
        self._kill = kill
        self._on_ready = on_ready
        self._spares: list[_Spare] = []
        self._plain: list[_Spare] = []
        self._threads = 0
        self._wanted = 0
        self._plain_wanted = 0
        self._begin_at = 0.0
        self._begin_plain_at = 0.0

    @property
    def pids(self) -> list[int]:
        """The process ids of the spares, which are not tasks yet."""
        return [spare.pid for spare in (*self._spares, *self._plain)]

    def want(self, threads: int, count: int) -> None:
        """Prepare for ``count`` tasks with ``threads`` threads each."""
        self._threads, self._wanted = threads, count
        for spare in [s for s in self._spares if s.threads != threads]:
            self._end(spare)
        for spare in self._spares[count:]:
            self._end(spare)

    def rest(self) -> None:
        """Postpone the next rehearsal by ``REST_S``, because there was activity."""
        self._begin_at = time.monotonic() + REST_S

    def due_in_s(self, *, is_idle: bool) -> float | None:
        """Return the seconds until ``begin`` is due; None if no spare is wanted, or one is still rehearsing.

        ``is_idle`` is whether no task is running.
        """
        now = time.monotonic()
        due = []
        if len(self._plain) < self._plain_wanted:
            due.append(self._begin_plain_at - now)
        if is_idle and len(self._spares) < self._wanted and all(spare.is_ready for spare in self._spares):
            due.append(self._begin_at - now)
        return max(0.0, min(due)) if due else None

    def begin(self) -> None:
        """Start the spare that is due."""
        if len(self._plain) < self._plain_wanted:
            wanted, self._plain_wanted = self._plain_wanted, 0  # if forking fails, do not retry before the next task
            self._plain.append(self._begin(0))
            self._plain_wanted = wanted
        else:
            self.rest()  # if forking fails, do not retry immediately
            self._spares.append(self._begin(self._threads))

    def _begin(self, threads: int) -> _Spare:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid = self._fork(lambda: self._be_spare(theirs, threads))
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        spare = _Spare(pid, ours, threads)
        if threads:
            self._selector.register(ours, selectors.EVENT_READ, lambda _: self._on_message(spare))
        return spare

    def give(self, threads: int, spec_path: str, fds: list[int]) -> int:
        """Turn a spare into a task. Returns the spare's pid, or 0 if none is ready.

        Spares that are still rehearsing are killed, because they would slow down the task.

        Args:
            threads: The number of threads for which the spare may have rehearsed; 0 requires a plain spare.
            spec_path: The path of the task's spec.
            fds: The file descriptors of the task's stdout, stderr, events and control pipes.
        """
        for spare in [s for s in self._spares if not s.is_ready]:
            self._end(spare)
        self._plain_wanted, self._begin_plain_at = PLAIN, time.monotonic() + PLAIN_REST_S
        for spare in [*(spare for spare in self._spares if spare.threads == threads), *self._plain]:
            try:
                socket.send_fds(spare.socket, [spec_path.encode()], fds)
            except OSError:  # the spare has just died
                continue
            self._forget(spare)
            return spare.pid
        return 0

    def on_exit(self, pid: int) -> None:
        """Handle the exit of a process. If it was a spare, no more are created, since they would fail too."""
        for spare in (*self._spares, *self._plain):
            if spare.pid == pid:
                self._wanted = self._plain_wanted = 0
                self._forget(spare)
                return

    def leave(self) -> None:
        """Close the sockets, which belong to the parent process. Called in each fork."""
        for spare in (*self._spares, *self._plain):
            spare.socket.close()

    def _on_message(self, spare: _Spare) -> None:
        with contextlib.suppress(OSError):
            spare.is_ready = spare.socket.recv(1) == _READY
        if spare.is_ready:
            self._on_ready(len(self._spares))
        else:  # the spare has exited, and is reaped like any child
            self._selector.unregister(spare.socket)

    def _end(self, spare: _Spare) -> None:
        self._kill(spare.pid)
        self._forget(spare)

    def _forget(self, spare: _Spare) -> None:
        (self._spares if spare.threads else self._plain).remove(spare)
        if spare.socket in self._selector.get_map():
            self._selector.unregister(spare.socket)
        spare.socket.close()

    def _be_spare(self, warm: socket.socket, threads: int) -> int:
        from . import process

        if threads:
            process.rehearse(threads)
            warm.send(_READY)
        data, fds, _flags, _address = socket.recv_fds(warm, _MAX_MESSAGE, 8)
        warm.close()
        return self._become(data.decode(), fds) if data else os.EX_OK
