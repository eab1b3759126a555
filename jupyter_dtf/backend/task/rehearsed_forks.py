"""Spares: forks that have rehearsed, so that a training reaches the end of its first step in 3/4 of the time.

A spare is a fork of the warm process that has set TensorFlow's number of threads, has trained a tiny model, and waits
to become a task. Spares are created only when no task has run for a moment, so that they slow nothing down. Each
becomes only one task, so that nothing is left over from one program to another.
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
"""How long after the last activity a spare is started. If one run follows another, the next one then has the machine to
itself, and no spare is started only to be killed.
"""


@dataclass
class _Spare:
    pid: int
    socket: socket.socket
    threads: int
    is_ready: bool = False


class Spares:
    """The spares of a warm process.

    Args:
        selector: The selector of the warm process's loop.
        fork: ``fork(child)`` forks, runs ``child()`` in the child, and returns its pid here.
        become: ``become(spec_path, fds)`` runs the task in a spare and returns its exit status.
        kill: ``kill(pid)`` kills a spare.
        on_ready: Called with the number of spares when another one is ready.
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
        self._threads = 0
        self._wanted = 0
        self._begin_at = 0.0

    @property
    def pids(self) -> list[int]:
        """The pids of those that are not tasks yet."""
        return [spare.pid for spare in self._spares]

    def want(self, threads: int, count: int) -> None:
        """Prepare for ``count`` tasks with ``threads`` threads each."""
        self._threads, self._wanted = threads, count
        for spare in [s for s in self._spares if s.threads != threads]:
            self._end(spare)
        for spare in self._spares[count:]:
            self._end(spare)

    def rest(self) -> None:
        """Start no spare for a moment, because there was some activity."""
        self._begin_at = time.monotonic() + REST_S

    def due_in_s(self) -> float | None:
        """Return when to ``begin`` another, in seconds; None if none is wanted, or one is still rehearsing."""
        if len(self._spares) >= self._wanted or not all(spare.is_ready for spare in self._spares):
            return None
        return max(0.0, self._begin_at - time.monotonic())

    def begin(self) -> None:
        """Start another spare. To be called while no task is running."""
        self.rest()  # if forking fails, do not retry immediately
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        threads = self._threads
        pid = self._fork(lambda: self._be_spare(theirs, threads))
        theirs.close()
        spare = _Spare(pid, ours, threads)
        self._spares.append(spare)
        self._selector.register(ours, selectors.EVENT_READ, lambda _: self._on_message(spare))

    def give(self, threads: int, spec_path: str, fds: list[int]) -> int:
        """Turn a spare into the task. Returns its pid, or 0 if none is ready.

        A spare that is still rehearsing is killed, because it would slow down the task.
        """
        for spare in [s for s in self._spares if not s.is_ready]:
            self._end(spare)
        for spare in self._spares:
            if spare.threads == threads:
                try:
                    socket.send_fds(spare.socket, [spec_path.encode()], fds)
                except OSError:  # it has just died
                    continue
                self._forget(spare)
                return spare.pid
        return 0

    def on_exit(self, pid: int) -> None:
        """Handle the exit of a process. If it was a spare, no more are created, since they would fail too."""
        for spare in self._spares:
            if spare.pid == pid:
                self._wanted = 0
                self._forget(spare)
                return

    def leave(self) -> None:
        """Close the sockets in a fork, because they belong to its parent."""
        for spare in self._spares:
            spare.socket.close()

    def _on_message(self, spare: _Spare) -> None:
        with contextlib.suppress(OSError):
            spare.is_ready = spare.socket.recv(1) == _READY
        if spare.is_ready:
            self._on_ready(len(self._spares))
        else:  # it has exited, and is reaped like any child
            self._selector.unregister(spare.socket)

    def _end(self, spare: _Spare) -> None:
        self._kill(spare.pid)
        self._forget(spare)

    def _forget(self, spare: _Spare) -> None:
        self._spares.remove(spare)
        if spare.socket in self._selector.get_map():
            self._selector.unregister(spare.socket)
        spare.socket.close()

    def _be_spare(self, warm: socket.socket, threads: int) -> int:
        from . import process

        process.rehearse(threads)
        warm.send(_READY)
        data, fds, _flags, _address = socket.recv_fds(warm, _MAX_MESSAGE, 8)
        warm.close()
        return self._become(data.decode(), fds) if data else os.EX_OK
