"""Connections between two tasks, each carrying data one way.

Who dials sends; so a task reads and writes at once in two threads, which one TLS connection does not allow. The way
back of a connection is for one word, with which a task that leaves says how.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from queue import SimpleQueue
from typing import Any

from .....errors import InvalidInput

_BUFFER_BYTES = 1 << 16
_SILENT = {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN}
_INFO = struct.Struct("=52x2I")  # of tcp_info: milliseconds since data came, and since an answer came
_BUSY = struct.Struct("=168xQ")  # of the same: microseconds in which something was on its way; from Linux 4.10 on
_SILENT_SHARE = 0.75  # of the patience; while all is well answers come six times in it
_PROBES = 6  # of a connection on which nothing travels, before it is given up


class Word(Enum):
    """How the task at the other end is."""

    HERE = b""
    LEFT = b"L"
    FAILED = b"F"
    FOLLOWED = b"G"  # it has left because another one has gone
    DIED = b"D"  # never said: the connection has ended without a word
    SILENT = b"S"  # nor this: its machine has not answered for too long


_SAID = {word.value for word in (Word.LEFT, Word.FAILED, Word.FOLLOWED)}


@dataclass(frozen=True)
class Peer:
    """The task at the other end."""

    rank: int
    """In the run."""
    task: str
    host: str


class Broken(Exception):
    """A connection has ended. The words on the ways back tell why."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer)  # with which it can be pickled as well
        self.peer = peer

    def __str__(self) -> str:
        return self.peer.task


def link_seconds() -> float:
    """After how long without a sign from another machine a run is given up: DTF_LINK_SECONDS, or 60. Raises
    InvalidInput.
    """
    value = os.environ.get("DTF_LINK_SECONDS", "60")
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 86_400:
        raise InvalidInput(
            f"DTF_LINK_SECONDS is a number from 1 to 86400. Received: {value!r}", field="DTF_LINK_SECONDS"
        )
    return seconds


def prepare(connected: socket.socket, patience_s: float) -> None:
    """Have small messages sent at once, and the connection end when the other machine is silent for so long.

    Until then TCP sends again what has been lost.
    """
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        every = max(1, round(patience_s / _PROBES))
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, every)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, every)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(patience_s * 1000))


def _is_silent(connected: socket.socket, patience_s: float) -> bool:
    """Whether a connection that has ended has ended because nothing came from the other machine.

    The kernel is asked: of what a read or write has failed with, ``ssl`` makes an end of the file.
    """
    if sys.platform != "linux":
        return False
    try:
        info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
    except OSError:
        return False
    last_data_ms, last_answer_ms = _INFO.unpack(info)
    return bool(min(last_data_ms, last_answer_ms) >= _SILENT_SHARE * patience_s * 1000)


class Outgoing:
    """What this task sends to another."""

    def __init__(self, connected: socket.socket, peer: Peer, patience_s: float) -> None:
        self.peer = peer
        self._patience_s = patience_s
        self.sent = 0
        """Bytes so far."""
        self._sending_s = 0.0
        self._socket = connected
        self._raw = socket.socket(fileno=os.dup(connected.fileno()))  # to look at what came without decrypting it
        self._lock = threading.Lock()  # TLS is either read or written
        self._word = Word.HERE

    def fileno(self) -> int:
        return self._raw.fileno()

    def send(self, data: Any) -> None:
        """Send all of it. Raises Broken."""
        try:
            with self._lock:
                begun = time.perf_counter()
                self._socket.sendall(data)
                self._sending_s += time.perf_counter() - begun
        except OSError as error:
            self._note(error)
            raise Broken(self.peer) from error
        self.sent += len(data)

    @property
    def busy_s(self) -> float:
        """Seconds in which something was on its way to the other machine: of a slow link many.

        The kernel counts them, for its buffers take what is sent long before the link does.
        """
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                info = self._raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BUSY.size)
                if len(info) == _BUSY.size:
                    return float(_BUSY.unpack(info)[0]) / 1e6
        return self._sending_s

    def word(self) -> Word:
        """How the other task is, as far as it has come to be known. Does not wait."""
        if self._word is Word.HERE and self._lock.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._lock.release()
        return self._word

    def await_word(self, seconds: float) -> Word:
        """The same, when it is known or that much time has passed."""
        if self.word() is Word.HERE:
            await_any([self], seconds)
        return self.word()

    def _look(self) -> None:
        try:
            if self._raw.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                said = self._socket.recv(1)
                self._word = Word(said) if said in _SAID else Word.DIED
            else:
                self._note()
        except BlockingIOError:
            pass
        except OSError as error:
            self._note(error)

    def _note(self, error: OSError | None = None) -> None:
        if (error is not None and error.errno in _SILENT) or _is_silent(self._raw, self._patience_s):
            self._word = Word.SILENT
        elif error is None:  # where something else has failed, the word may still be there to be read
            self._word = Word.DIED

    def close(self) -> None:
        self._raw.close()
        _close(self._socket)


def await_any(wires: Sequence[Outgoing], seconds: float) -> None:
    """Return when a word has come from one of the tasks that these lead to, or that much time has passed."""
    poll = select.poll()
    for wire in wires:
        poll.register(wire, select.POLLIN)
    if wires:
        poll.poll(seconds * 1000)


class Incoming:
    """What another task sends to this one. One thread at a time."""

    def __init__(self, connected: socket.socket, peer: Peer, patience_s: float) -> None:
        self.peer = peer
        self._patience_s = patience_s
        self.received = 0
        """Bytes so far."""
        self.word = Word.HERE
        """SILENT where that has been seen here."""
        self._socket = connected
        self._is_encrypted = isinstance(connected, ssl.SSLSocket)
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._first, self._end = 0, 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def is_ready(self) -> bool:
        """Whether there is something that has been taken off the network already."""
        return self._end > self._first or (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0)

    def read(self, nbytes: int) -> memoryview:
        """The next bytes, no more than a buffer has; good until the next call. Raises Broken."""
        if self._end - self._first < nbytes:
            left = self._end - self._first
            self._buffer[:left] = self._buffer[self._first : self._end]
            self._first, self._end = 0, left
            while self._end < nbytes:
                self._end += self._receive(self._buffer[self._end :], 0)
        self._first += nbytes
        self.received += nbytes
        return self._buffer[self._first - nbytes : self._first]

    def read_into(self, target: memoryview) -> None:
        """Fill ``target`` with the next bytes. Raises Broken."""
        done = min(self._end - self._first, len(target))
        target[:done] = self._buffer[self._first : self._first + done]
        self._first += done
        flags = 0 if self._is_encrypted else socket.MSG_WAITALL
        while done < len(target):
            done += self._receive(target[done:], flags)
        self.received += len(target)

    def _receive(self, target: memoryview, flags: int) -> int:
        try:
            count = self._socket.recv_into(target, len(target), flags)
        except OSError as error:
            if error.errno in _SILENT or _is_silent(self._socket, self._patience_s):
                self.word = Word.SILENT
            raise Broken(self.peer) from error
        if not count:
            if _is_silent(self._socket, self._patience_s):
                self.word = Word.SILENT
            raise Broken(self.peer)
        return count

    def say(self, word: Word) -> None:
        """Tell the other task how this one leaves."""
        with contextlib.suppress(OSError):  # it has left itself
            self._socket.settimeout(1.0)
            self._socket.send(word.value)

    def close(self) -> None:
        _close(self._socket)


def _close(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_WR)
    connected.close()


class Sender:
    """A thread that sends while another one receives."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Outgoing | None, Any]] = SimpleQueue()
        self._broken: Broken | None = None
        self._thread: threading.Thread | None = None

    def send(self, wire: Outgoing, data: Any) -> None:
        """Send the data, which stays as it is until ``flush``, after all else."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="dtf-sending", daemon=True)
            self._thread.start()
        self._queue.put((wire, data))

    def flush(self) -> None:
        """Return when all has been sent. Raises Broken if it could not be."""
        done = threading.Event()
        if self._thread is not None:
            self._queue.put((None, done))
            done.wait()
        self.check()

    def check(self) -> None:
        """Raises Broken if a connection has ended while something was sent."""
        if self._broken is not None:
            raise self._broken

    def end(self) -> None:
        """Send no more, when what has been handed over is sent."""
        if self._thread is not None:
            self._queue.put((None, None))

    def _run(self) -> None:
        while True:
            wire, data = self._queue.get()
            if wire is None:
                if data is None:
                    return
                data.set()
            elif self._broken is None:
                try:
                    wire.send(data)
                except Broken as error:
                    self._broken = error
            del data
