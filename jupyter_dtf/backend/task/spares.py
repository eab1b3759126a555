"""Forks that have rehearsed: a training that starts in one has its first step in three quarters of the time.

A spare is a fork of the warm process that has set the number of TensorFlow's threads, has trained a tiny model, and
waits for a task to become. It is made only when no task has run for a moment, so that it takes time from nobody, and
becomes one task only: what a program leaves in a process ends with it.
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
"""How long after the last task a spare is begun: where one run follows another, the next one has the machine to itself,
and nothing is begun that it would only end.
"""


@dataclass
class _Spare:
    pid: int
    socket: socket.socket
    threads: int
    is_ready: bool = False


class Spares:
    """The spares of a warm process. ``fork(child)`` forks, runs ``child()`` there, and returns its pid here.

    ``become(spec_path, fds)`` is what a spare does at last: it runs the task and returns its exit status. ``kill(pid)``
    ends one, and ``on_ready(count)`` is called when one more is ready, with their number.
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
        """Of those that are not tasks yet."""
        return [spare.pid for spare in self._spares]

    def want(self, threads: int, count: int) -> None:
        """From now on, be ready for ``count`` tasks of so many threads."""
        self._threads, self._wanted = threads, count
        for spare in [s for s in self._spares if s.threads != threads]:
            self._end(spare)
        for spare in self._spares[count:]:
            self._end(spare)

    def rest(self) -> None:
        """Something was done for somebody: begin none before a moment has passed."""
        self._begin_at = time.monotonic() + REST_S

    def due_in_s(self) -> float | None:
        """When to ``begin`` another, in seconds; None where none is wanted, or one is at its rehearsal."""
        if len(self._spares) >= self._wanted or not all(spare.is_ready for spare in self._spares):
            return None
        return max(0.0, self._begin_at - time.monotonic())

    def begin(self) -> None:
        """Begin another spare. To be called while no task runs."""
        self.rest()  # if it cannot be forked, it is not tried again at once
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        threads = self._threads
        pid = self._fork(lambda: self._be_spare(theirs, threads))
        theirs.close()
        spare = _Spare(pid, ours, threads)
        self._spares.append(spare)
        self._selector.register(ours, selectors.EVENT_READ, lambda _: self._on_message(spare))

    def give(self, threads: int, spec_path: str, fds: list[int]) -> int:
        """Have a spare become the task. Returns its pid, 0 if there is none that is ready.

        One that is still at its rehearsal is ended: it would take time from the task.
        """
        for spare in [s for s in self._spares if not s.is_ready]:
            self._end(spare)
        for spare in self._spares:
            if spare.threads == threads:
                try:
                    socket.send_fds(spare.socket, [spec_path.encode()], fds)
                except OSError:  # it has died just now
                    continue
                self._forget(spare)
                return spare.pid
        return 0

    def on_exit(self, pid: int) -> None:
        """A process has ended. A spare that did so is not made again: the next one would fare no better."""
        for spare in self._spares:
            if spare.pid == pid:
                self._wanted = 0
                self._forget(spare)
                return

    def leave(self) -> None:
        """For a fork: these are its parent's."""
        for spare in self._spares:
            spare.socket.close()

    def _on_message(self, spare: _Spare) -> None:
        with contextlib.suppress(OSError):
            spare.is_ready = spare.socket.recv(1) == _READY
        if spare.is_ready:
            self._on_ready(len(self._spares))
        else:  # its end, which is collected as that of any child
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
