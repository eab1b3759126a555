"""Encrypts a stream of bytes in frames of up to 256 KiB, with a key that the two sides have exchanged over TLS.

A frame is the length of its data, then the data encrypted by AES-256-GCM, which includes a tag that proves that nothing
was modified. The nonce is the number of the frame, so frames cannot be repeated, left out or reordered either. A key is
used for one direction of one connection only, because with AES-GCM no two messages may have the same key and nonce.

TLS itself would need a call from Python for every 16 KiB, in both tasks, with two system calls each. Moreover, the
``cryptography`` package comes with a recent OpenSSL, whose AES-GCM is two to four times as fast as that of OpenSSL 3.0,
which many builds of Python still use.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_MOST_BYTES = 1 << 18
_TAG_BYTES = 16
_LENGTH = struct.Struct("<I")
_NONCE = struct.Struct("<4xQ")


def without_tls(connected: socket.socket) -> socket.socket:
    """Return a second, blocking socket for the connection, which sends and receives past TLS.

    Both have to be closed. ``connected`` must be blocking, because that is a property of the connection.
    """
    descriptor = os.dup(connected.fileno())
    try:
        bare = socket.socket(connected.family, connected.type, connected.proto, fileno=descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    bare.settimeout(None)  # a program may have set another default
    return bare


def new_key() -> bytes:
    """Return a random key for one direction of one connection."""
    return secrets.token_bytes(KEY_BYTES)


class FrameWriter:
    """Sends frames over ``connected``, which must be blocking. Not thread-safe."""

    def __init__(self, connected: socket.socket, key: bytes) -> None:
        self._socket = connected
        self._cipher = AESGCM(key)
        self._count = 0
        self._frame = memoryview(bytearray(_LENGTH.size + _MOST_BYTES + _TAG_BYTES))

    def sendall(self, data: Any) -> None:
        """Send all bytes of ``data``, an object with the buffer protocol. Raises OSError if the connection has ended.

        After an error, nothing more can be sent.
        """
        rest = memoryview(data).cast("B")
        while rest:
            part, rest = rest[:_MOST_BYTES], rest[_MOST_BYTES:]
            end = _LENGTH.size + len(part) + _TAG_BYTES
            _LENGTH.pack_into(self._frame, 0, len(part))
            self._cipher.encrypt_into(_NONCE.pack(self._count), part, None, self._frame[_LENGTH.size : end])
            self._count += 1
            self._socket.sendall(self._frame[:end])


class FrameReader:
    """Receives frames over ``connected``, which must be blocking. Not thread-safe."""

    def __init__(self, connected: socket.socket, key: bytes) -> None:
        self._socket = connected
        self._cipher = AESGCM(key)
        self._count = 0
        self._head = memoryview(bytearray(_LENGTH.size))
        self._frame = memoryview(bytearray(_MOST_BYTES + _TAG_BYTES))
        self._data = memoryview(bytearray(_MOST_BYTES))
        self._first, self._end = 0, 0  # the part of ``_data`` that has not been returned yet

    def pending(self) -> int:
        """Return the number of bytes that can be read without receiving another frame."""
        return self._end - self._first

    def recv_into(self, target: memoryview) -> int:
        """Write at least one byte into ``target``, unless it is empty, and return their number; 0 if the connection has
        ended.

        Raises OSError if the connection has failed or a frame is not what the other side has sent.
        """
        if not self.pending():
            length = self._receive(target)
            if length <= len(target):
                return length
            self._first, self._end = 0, length
        count = min(self.pending(), len(target))
        target[:count] = self._data[self._first : self._first + count]
        self._first += count
        return count

    def _receive(self, target: memoryview) -> int:
        """Receive a frame. Its data is in ``target`` if it fits, otherwise in ``_data``. Return its length in bytes."""
        if not self._fill(self._head):
            return 0
        (length,) = _LENGTH.unpack(self._head)
        if length > _MOST_BYTES:
            raise ConnectionAbortedError(f"A frame must have at most {_MOST_BYTES} bytes, got {length}")
        frame = self._frame[: length + _TAG_BYTES]
        if not self._fill(frame):
            return 0
        into = (target if length <= len(target) else self._data)[:length]
        try:
            self._cipher.decrypt_into(_NONCE.pack(self._count), frame, None, into)
        except InvalidTag:
            raise ConnectionAbortedError("The frame was modified, or is not the next one of this connection") from None
        self._count += 1
        return int(length)

    def _fill(self, memory: memoryview) -> bool:
        """Receive exactly as many bytes as ``memory`` has. Return False if the connection ends before."""
        while memory:
            count = self._socket.recv_into(memory, len(memory), socket.MSG_WAITALL)
            if not count:
                return False
            memory = memory[count:]
        return True
