"""One-way data connections between two tasks.

The connecting side sends the data. With one connection per direction, a task can read and write simultaneously in two
threads, which a single TLS connection does not allow. The opposite direction of a connection carries only one word,
with which a task that leaves reports its reason. On an encrypted connection, the data is in frames
(``encrypted_frames.py``), and the word is sent by TLS.
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
from .encrypted_frames import FrameReader, FrameWriter, without_tls

_BUFFER_BYTES = 1 << 16
_SILENT = {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN}
_INFO = struct.Struct("=52x2I")  # in tcp_info: milliseconds since the last data, and since the last acknowledgment
_BUSY = struct.Struct("=168xQ")  # also in tcp_info: microseconds with data in flight; from Linux 4.10 on
_SILENT_SHARE = 0.75  # a fraction of ``patience_s``; on an idle connection, several replies arrive in this time
_PROBES = 6  # keepalive probes on an idle connection before it is considered lost


class Word(Enum):
    """The state of the task at the other end."""

    HERE = b""
    LEFT = b"L"
    FAILED = b"F"
    FOLLOWED = b"G"  # it has left because another task was lost
    DIED = b"D"  # never sent: the connection has ended without a word
    SILENT = b"S"  # never sent: the machine has not responded for too long


_SAID = {word.value for word in (Word.LEFT, Word.FAILED, Word.FOLLOWED)}


@dataclass(frozen=True)
class Peer:
    """The task at the other end."""

    rank: int
    """The task's rank in the run."""
    task: str
    host: str


class Broken(Exception):
    """Raised when a connection has ended. The words received on the connections give the reason."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer)  # makes it picklable
        self.peer = peer

    def __str__(self) -> str:
        return self.peer.task


def link_seconds() -> float:
    """Return the time without a reply after which another machine is considered lost: DTF_LINK_SECONDS, or 60 s.

    Raises InvalidInput for an invalid value.
    """
    value = os.environ.get("DTF_LINK_SECONDS", "60")
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 86_400:
        raise InvalidInput(
            f"`DTF_LINK_SECONDS` must be a number from 1 to 86400, got {value!r}", field="DTF_LINK_SECONDS"
        )
    return seconds


def prepare(connected: socket.socket, patience_s: float) -> None:
    """Disable delays of small messages, and make the connection fail after ``patience_s`` seconds without a reply.

    Until then, TCP retransmits lost data.
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
    """Return whether a connection has ended because the other machine did not respond.

    This asks the kernel, because ``ssl`` reports failed reads and writes as the end of the file.
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
    """The sending side of a connection. With ``key``, data is sent in frames that are encrypted with it."""

    def __init__(self, connected: socket.socket, peer: Peer, patience_s: float, key: bytes | None = None) -> None:
        self.peer = peer
        self._patience_s = patience_s
        self.sent = 0
        """The number of bytes sent so far."""
        self._sending_s = 0.0
        self._socket = connected
        self._raw = without_tls(connected)
        self._sink = connected if key is None else FrameWriter(self._raw, key)
        self._lock = threading.Lock()  # held while sending, and while looking for a word
        self._word = Word.HERE

    def fileno(self) -> int:
        return self._raw.fileno()

    def send(self, data: Any) -> None:
        """Send all of the data. Raises Broken if the connection has ended."""
        try:
            with self._lock:
                begun = time.perf_counter()
                self._sink.sendall(data)
                self._sending_s += time.perf_counter() - begun
        except OSError as error:
            self._note(error)
            raise Broken(self.peer) from error
        self.sent += len(data)

    @property
    def busy_s(self) -> float:
        """The time in seconds during which data was in flight to the other machine. It is long on a slow link.

        The kernel measures this time, because the kernel's buffers accept data long before the data is sent.
        """
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                info = self._raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BUSY.size)
                if len(info) == _BUSY.size:
                    return float(_BUSY.unpack(info)[0]) / 1e6
        return self._sending_s

    def word(self) -> Word:
        """Return the last known state of the other task, without waiting."""
        if self._word is Word.HERE and self._lock.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._lock.release()
        return self._word

    def await_word(self, seconds: float) -> Word:
        """Wait until the state of the other task is no longer HERE, for at most ``seconds``, and return the state."""
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
        elif error is None:  # after another error, the word may still be readable
            self._word = Word.DIED

    def close(self) -> None:
        _close(self._socket)
        self._raw.close()


def await_any(wires: Sequence[Outgoing], seconds: float) -> None:
    """Wait until a word arrives on one of these connections, for at most ``seconds``."""
    poll = select.poll()
    for wire in wires:
        poll.register(wire, select.POLLIN)
    if wires:
        poll.poll(seconds * 1000)


class Incoming:
    """The receiving side of a connection. With ``key``, data is in frames encrypted with it. Not thread-safe."""

    def __init__(self, connected: socket.socket, peer: Peer, patience_s: float, key: bytes | None = None) -> None:
        self.peer = peer
        self._patience_s = patience_s
        self.received = 0
        """The number of bytes received so far."""
        self.word = Word.HERE
        """SILENT if this side has detected that the other machine does not respond, otherwise HERE."""
        self._socket = connected
        self._raw = without_tls(connected)
        self._decrypted: ssl.SSLSocket | FrameReader | None = None
        if key is not None:
            self._decrypted = FrameReader(self._raw, key)
        elif isinstance(connected, ssl.SSLSocket):
            self._decrypted = connected
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._first, self._end = 0, 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def is_ready(self) -> bool:
        """Return whether data that has already been read from the network is available."""
        return self._end > self._first or (self._decrypted is not None and self._decrypted.pending() > 0)

    def read(self, nbytes: int) -> memoryview:
        """Return the next ``nbytes`` bytes, at most the buffer's size, as memory that is valid until the next call.

        Raises Broken if the connection has ended.
        """
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
        """Fill ``target`` with the next bytes. Raises Broken if the connection has ended."""
        done = min(self._end - self._first, len(target))
        target[:done] = self._buffer[self._first : self._first + done]
        self._first += done
        while done < len(target):
            done += self._receive(target[done:], socket.MSG_WAITALL)
        self.received += len(target)

    def _receive(self, target: memoryview, flags: int) -> int:
        try:
            if self._decrypted is None:
                count = self._raw.recv_into(target, len(target), flags)
            else:
                count = self._decrypted.recv_into(target)
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
        """Report to the other task why this task is leaving."""
        with contextlib.suppress(OSError):  # the other task has left, too
            self._socket.settimeout(1.0)
            self._socket.send(word.value)

    def close(self) -> None:
        _close(self._socket)
        self._raw.close()


def _close(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_WR)
    connected.close()


class Sender:
    """Sends data in a thread, while another thread receives."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Outgoing | None, Any]] = SimpleQueue()
        self._broken: Broken | None = None
        self._thread: threading.Thread | None = None

    def send(self, wire: Outgoing, data: Any) -> None:
        """Queue data to be sent. The data must not change until ``flush`` has returned."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="dtf-sending", daemon=True)
            self._thread.start()
        self._queue.put((wire, data))

    def flush(self) -> None:
        """Wait until all queued data has been sent. Raises Broken if sending has failed."""
        done = threading.Event()
        if self._thread is not None:
            self._queue.put((None, done))
            done.wait()
        self.check()

    def check(self) -> None:
        """Raise Broken if a connection has ended while data was being sent."""
        if self._broken is not None:
            raise self._broken

    def end(self) -> None:
        """End the thread after all queued data has been sent."""
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
