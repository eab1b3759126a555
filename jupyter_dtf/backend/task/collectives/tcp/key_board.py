"""A board for deadlock detection. The run's first task hosts it; the others access it over separate connections."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

from ..deadlocks import GONE, HEARD_S, VERDICT, Board
from .links import Links, exactly
from .wires import Broken, Incoming

GROUP = "board"
_HEAD = struct.Struct("<BII")  # whether to write, length of the key, length of the text
_LENGTH = struct.Struct("<I")
_PATIENCE_S = 20.0


class KeyBoard(Board):
    """One task's access to the board, which the first task also hosts."""

    lasts = False  # hosted by the first task

    def __init__(self, links: Links) -> None:
        self._links = links
        self._lock = threading.Lock()
        self._texts: dict[str, str] = {}
        self._readers: set[int] = set()
        self._unaware: set[int] = set()
        self._changed = threading.Condition()
        self._connected: socket.socket | None = None
        if links.rank == 0:
            links.serve(GROUP, self._answer)

    def write(self, key: str, text: str) -> None:
        if self._links.rank == 0:
            self._texts[key] = text
        else:
            self._ask(1, key, text)

    def read(self, key: str) -> str:
        if self._links.rank == 0:
            return self._texts.get(key, "")
        return self._ask(0, key, "")

    def linger(self) -> None:
        """Wait until the other tasks have read their messages or ended, because the board ends with this task."""
        with self._changed:
            self._changed.wait_for(lambda: not self._unaware, HEARD_S)
            self._unaware.update(self._readers)  # for the next message, if this task continues

    def _ask(self, writes: int, key: str, text: str) -> str:
        named = key.encode()
        sent = text.encode()
        with self._lock:
            if self.lost:
                return ""
            if self._connected is None:
                with contextlib.suppress(OSError):  # the first task has not reached its first collective yet
                    self._connected = self._links.dial_raw(GROUP, 0)
                    self._connected.settimeout(_PATIENCE_S)
            if self._connected is None:
                return ""
            try:
                self._connected.sendall(_HEAD.pack(writes, len(named), len(sent)) + named + sent)
                (length,) = _LENGTH.unpack(exactly(self._connected, _LENGTH.size))
                return exactly(self._connected, length).decode(errors="replace")
            except OSError:
                self.lost = True
                return ""

    def _answer(self, incoming: Incoming, connected: socket.socket) -> None:
        reader = incoming.peer.rank
        with self._changed:
            self._readers.add(reader)
            self._unaware.add(reader)
        try:
            while True:
                writes, length, rest = _HEAD.unpack(incoming.read(_HEAD.size))
                key = bytes(incoming.read(length)).decode()
                body = bytearray(rest)  # may exceed the connection's buffer if a task waits in many calls
                incoming.read_into(memoryview(body))
                text = body.decode(errors="replace")
                if writes:
                    self._texts[key] = text
                else:
                    text = self._texts.get(key, "")
                answer = b"" if writes else text.encode()
                connected.sendall(_LENGTH.pack(len(answer)) + answer)
                if text and key.startswith((VERDICT, GONE)):
                    self._is_aware(reader)
        except (Broken, OSError):
            incoming.close()
            with self._changed:
                self._readers.discard(reader)
            self._is_aware(reader)

    def _is_aware(self, reader: int) -> None:
        with self._changed:
            self._unaware.discard(reader)
            self._changed.notify_all()
