"""The transport of messages between workers and ``ps`` tasks.

A message consists of a msgpack struct and a payload (the bytes of arrays). Between tasks on one machine, structs are
sent through a Unix socket and payloads through a file in shared memory, one for each direction: the two sides
alternate, so a file has been read before it is written again. Across machines, both are sent over TCP.

Both sides prove knowledge of the run's secret by HMAC over fresh nonces before anything else is read. Across machines,
everything is encrypted, unless encryption is disabled: the handshake by TLS with the run's certificate, and then the
messages in frames, with keys that the two sides have exchanged over TLS. Nothing is unpickled.
"""

from __future__ import annotations

import hmac
import mmap
import os
import secrets
import socket
import ssl
import struct
from collections.abc import Sequence
from functools import lru_cache
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .....schema.disk_space import allocate
from ...collectives.tcp.encrypted_frames import KEY_BYTES, FrameReader, FrameWriter, new_key, without_tls
from ...collectives.tcp.run_certificate import Tls, encrypts
from .messages import AnyWord, decode, encode

HANDSHAKE_S = 10.0
"""The time within which a peer must authenticate itself."""
_ALIGN = 64  # TensorFlow reads aligned memory in place
_NONCE_BYTES, _PROOF_BYTES = 32, 32

Bytes = npt.NDArray[np.uint8]

_LENGTH = struct.Struct("<q")


class Channel:
    """One side of an authenticated connection. Only one thread may use it at a time."""

    def __init__(self, connection: Connection | Encrypted) -> None:
        self._connection = connection
        self._out: _Memory | None = None
        self._in: _Memory | None = None

    def share_memory(self, out: Path, into: Path) -> None:
        """From now on, send payloads through the file ``out`` and receive them through ``into``."""
        self._out, self._in = _Memory(out), _Memory(into)

    def send(self, word: AnyWord, *arrays: npt.NDArray[Any]) -> None:
        """Send a struct with the bytes of arrays, each starting at a multiple of 64.

        Raises OSError if the other side has disconnected.
        """
        length = sum(padded(a.nbytes) for a in arrays)
        head = _LENGTH.pack(length) + encode(word)
        if self._out is not None:
            _lay(arrays, self._out.reserve(length))
            self._connection.send_bytes(head)
            return
        self._connection.send_bytes(head)
        if length:
            blob = np.empty(length, np.uint8)
            _lay(arrays, blob)
            self._connection.send_bytes(blob.data)

    def receive(self) -> tuple[AnyWord, Bytes]:
        """Return the next struct and its payload, which may be memory that the next message overwrites.

        Raises EOFError or OSError if the other side has disconnected, and msgspec.MsgspecError for an invalid struct.
        """
        data = self._connection.recv_bytes()
        (length,) = _LENGTH.unpack_from(data)
        word = decode(data[_LENGTH.size :])
        if self._in is not None:
            return word, self._in.reserve(length)
        return word, np.frombuffer(self._connection.recv_bytes() if length else b"", np.uint8)

    def close(self) -> None:
        self._connection.close()


class _Memory:
    """A file in shared memory that grows as needed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._view: Bytes = np.empty(0, np.uint8)

    def reserve(self, length: int) -> Bytes:
        if length > self._view.size:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                capacity = max(-(-length // mmap.PAGESIZE) * mmap.PAGESIZE, os.fstat(descriptor).st_size)
                allocate(descriptor, self._path, capacity, "The data that tasks exchange")
                self._view = np.frombuffer(mmap.mmap(descriptor, capacity), np.uint8)
            finally:
                os.close(descriptor)
        return self._view[:length]


def padded(nbytes: int) -> int:
    """Return the offset of the array that follows an array of ``nbytes`` bytes: the next multiple of the alignment."""
    return -(-nbytes // _ALIGN) * _ALIGN


def _lay(arrays: Sequence[npt.NDArray[Any]], target: Bytes) -> None:
    start = 0
    for array in arrays:
        if array.nbytes:
            target[start : start + array.nbytes].view(array.dtype)[:] = array.reshape(-1)
        start += padded(array.nbytes)


class Reader:
    """Reads arrays from a payload in the order in which they were sent."""

    def __init__(self, payload: Bytes) -> None:
        self._payload = payload
        self._position = 0

    def take(self, dtype: Any, size: int) -> npt.NDArray[Any]:
        """Return the next array, of ``size`` items, as a view. Raises ValueError if the payload is shorter."""
        nbytes = size * np.dtype(dtype).itemsize
        part = self._payload[self._position : self._position + nbytes]
        if part.size != nbytes:
            raise ValueError(f"`payload` must have {nbytes} bytes at offset {self._position}, got {part.size}")
        self._position += padded(nbytes)
        return part.view(dtype)


def listen(path: Path) -> socket.socket:
    """Return a socket that listens for tasks on this machine."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(64)
    return listener


def listen_on_port(host: str, port: int) -> socket.socket:
    """Return a socket that listens for tasks on other machines, on the port that the host reserves for this task."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(address)
    listener.listen(64)
    return listener


class Encrypted:
    """An encrypted connection with the methods of ``multiprocessing.connection.Connection`` that ``Channel`` uses."""

    def __init__(self, connected: ssl.SSLSocket) -> None:
        self._socket = connected
        self._raw: socket.socket | None = None
        self._sink: ssl.SSLSocket | FrameWriter = connected
        self._source: ssl.SSLSocket | FrameReader = connected

    def use_frames(self) -> None:
        """From now on, send and receive frames rather than TLS records, without a timeout. Both sides must call this.

        Raises EOFError if the connection has ended, and OSError if the other side does not do the same.
        """
        key = new_key()
        self.send_bytes(key)
        other = bytes(self.recv_bytes(KEY_BYTES))
        if len(other) != KEY_BYTES:
            raise OSError(f"A key must have {KEY_BYTES} bytes, got {len(other)}")
        self.settimeout(None)
        self._raw = without_tls(self._socket)
        self._sink, self._source = FrameWriter(self._raw, key), FrameReader(self._raw, other)

    def send_bytes(self, data: bytes | memoryview) -> None:
        """Send ``data`` as one message."""
        self._sink.sendall(_LENGTH.pack(len(data)))
        self._sink.sendall(data)

    def recv_bytes(self, most: int | None = None) -> bytes | bytearray:
        """Return the next message.

        Raises EOFError if the connection has ended, and OSError if the message is longer than ``most``.
        """
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        if length < 0 or (most is not None and length > most):
            raise OSError("bad message length")
        return self._exactly(length)

    def _exactly(self, nbytes: int) -> bytearray:
        data = bytearray(nbytes)
        rest = memoryview(data)
        while rest:
            count = self._source.recv_into(rest)
            if not count:
                raise EOFError
            rest = rest[count:]
        return data

    def close(self) -> None:
        self._socket.close()
        if self._raw is not None:
            self._raw.close()

    def settimeout(self, seconds: float | None) -> None:
        """Set the timeout of each read and write."""
        self._socket.settimeout(seconds)


@lru_cache(maxsize=1)
def _tls(secret: bytes) -> Tls:
    return Tls(secret)


def accept(connected: socket.socket, secret: bytes) -> Channel:
    """Do the server's part of the handshake, and return the channel.

    Raises one of STRANGERS if the peer does not know the secret.
    """
    connection = _prepared(connected, secret, is_server=True)
    try:
        mine, theirs = _exchange_nonces(connection)
        _expect_proof(connection, secret, b"worker", mine + theirs)
        connection.send_bytes(_proof(secret, b"ps", mine + theirs))
    except BaseException:
        connection.close()
        raise
    return _authenticated(connection)


def connect(address: Path | tuple[str, int], secret: bytes) -> Channel:
    """Connect to a server, and return the channel.

    Raises ConnectionRefusedError or FileNotFoundError while no server listens, and one of STRANGERS if the handshake
    fails.
    """
    if isinstance(address, Path):
        connected = socket.socket(socket.AF_UNIX)
        try:
            connected.connect(str(address))
        except BaseException:
            connected.close()
            raise
    else:
        connected = socket.create_connection(address, timeout=HANDSHAKE_S)
    connection = _prepared(connected, secret, is_server=False)
    try:
        mine, theirs = _exchange_nonces(connection)
        connection.send_bytes(_proof(secret, b"worker", theirs + mine))
        _expect_proof(connection, secret, b"ps", theirs + mine)
    except BaseException:
        connection.close()
        raise
    return _authenticated(connection)


def _exchange_nonces(connection: Connection | Encrypted) -> tuple[bytes, bytes]:
    mine = secrets.token_bytes(_NONCE_BYTES)
    connection.send_bytes(mine)
    return mine, bytes(connection.recv_bytes(_NONCE_BYTES))


def _proof(secret: bytes, role: bytes, nonces: bytes) -> bytes:
    return hmac.digest(secret, role + nonces, "sha256")


def _expect_proof(connection: Connection | Encrypted, secret: bytes, role: bytes, nonces: bytes) -> None:
    if not hmac.compare_digest(connection.recv_bytes(_PROOF_BYTES), _proof(secret, role, nonces)):
        raise AuthenticationError(f"`secret` must be that of the run, got a different proof from a {role.decode()}")


def _prepared(connected: socket.socket, secret: bytes, is_server: bool) -> Connection | Encrypted:
    connected.setblocking(True)
    if connected.family != socket.AF_UNIX:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if encrypts():
            connected.settimeout(HANDSHAKE_S)
            try:
                tls = _tls(secret)
                return Encrypted((tls.accepted if is_server else tls.dialled)(connected))
            except BaseException:
                connected.close()
                raise
    connection = Connection(connected.detach())
    _set_timeout(connection, HANDSHAKE_S)
    return connection


def _authenticated(connection: Connection | Encrypted) -> Channel:
    if isinstance(connection, Encrypted):
        try:
            connection.use_frames()
        except BaseException:
            connection.close()
            raise
    else:
        _set_timeout(connection, 0)
    return Channel(connection)


def _set_timeout(connection: Connection, seconds: float) -> None:
    """Set the read timeout, after which BlockingIOError is raised; 0 waits forever."""
    held = socket.socket(fileno=connection.fileno())
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", int(seconds), 0))
    finally:
        held.detach()


STRANGERS = (AuthenticationError, EOFError, OSError)
"""The errors that ``accept`` raises if a peer does not belong to the run."""
