"""Implements the protocol between a client that reads a stream and the tasks that train on it, over a Unix socket.

A task sends its request in one ``Hello``, and then only receives messages. A message consists of a header
(little-endian u32 and u64: the lengths of the next two parts), a ``Message`` in MessagePack, and the values of the
batch's leaves, each starting at a multiple of 64 bytes. Nothing here is unpickled.

The socket has an abstract name (``unix(7)``), so that no file is left behind if a process is killed. Any process in the
same network namespace can see that name, so both ends query the kernel for the user that the other end belongs to, and
a task sends the stream's secret.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

HEADER = struct.Struct("<IQ")
ALIGN = 64
MOST_HELLO_BYTES = 4096


class Hello(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A task's request for its share of a stream's batches, starting at a position in the stream."""

    secret: str
    rank: int
    size: int
    passes: int = 0
    """The number of passes that training from epoch 0 would have completed before the position of this request."""
    within: int = 0
    """The number of batches of the first epoch to skip, because they have already been trained on."""
    passed: int = 0
    """The number of batches of the previous epochs to skip, if these epochs are parts of one pass."""
    again: int = 0
    """The number of times that the task's dataset has been restarted since that position."""
    only: int = 0
    """If not 0, every pass ends after this many batches."""
    in_parts: bool = False
    """Whether epochs are parts of one pass."""
    peek: int = 0
    """If not 0, the task requests only this many of the stream's first batches, if they are still kept. Such a request
    does not affect training.
    """
    ended: bool = False
    """Whether the task's program has ended, so that it needs no more batches, and the client must not wait for it."""


class Message(msgspec.Struct, omit_defaults=True):
    """The number of a batch and the shapes of its leaves, or, with the number -1, the end of the pass and the reason
    for it, such as an error.
    """

    batch: int = -1
    leaves: list[tuple[tuple[int, ...], int]] = []
    """The shape of each leaf, and the size of its values in bytes."""
    error: str = ""
    detail: str = ""
    """The traceback of the exception that caused ``error``; empty if there is none."""
    is_input: bool = False
    """Whether the error is due to the caller's input (InvalidInput)."""
    stopped: bool = False
    """Whether the pass ends early because a stop of the run has been requested."""
    note: str = ""
    """A note to show among the run's events."""


_encoder = msgspec.msgpack.Encoder()


def address_of(name: str) -> bytes:
    """Return the abstract address of a stream."""
    return b"\0jupyter_dtf-" + name.encode()


def is_own(peer: socket.socket) -> bool:
    """Return whether the kernel reports that the other end of a Unix socket is a process of this user."""
    found = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", found)[1] == os.getuid())


def say(peer: socket.socket, hello: Hello) -> None:
    """Send a task's request to a client. Raises OSError if the connection is lost."""
    data = msgspec.msgpack.encode(hello)
    peer.sendall(HEADER.pack(len(data), 0) + data)


def encoded(message: Message, parts: Sequence[Any] = ()) -> list[Any]:
    """Encode a message into buffers. ``parts``: contiguous arrays or bytes, one for each leaf."""
    raws = [_raw(part) for part in parts]
    message.leaves = [
        (tuple(part.shape) if isinstance(part, np.ndarray) else shape, len(raw))
        for part, raw, (shape, _) in zip(parts, raws, message.leaves, strict=True)
    ]
    meta = _encoder.encode(message)
    buffers: list[Any] = []
    size = 0
    for raw in raws:
        gap = -size % ALIGN
        if gap:
            buffers.append(bytes(gap))
        if len(raw):
            buffers.append(raw)
        size += gap + len(raw)
    return [HEADER.pack(len(meta), size) + meta, *buffers]


def _raw(part: Any) -> memoryview:
    if isinstance(part, np.ndarray):
        return part.reshape(-1).view(np.uint8).data
    return memoryview(part)


def receive(peer: socket.socket) -> tuple[Message, list[Any]]:
    """Return the next message, and the values of its leaves as arrays of bytes. Raises EOFError if the connection is
    closed.
    """
    meta_size, size = HEADER.unpack(_read(peer, bytearray(HEADER.size)))
    message = msgspec.msgpack.decode(_read(peer, bytearray(meta_size)), type=Message)
    if not message.leaves:
        return message, []
    # TensorFlow uses an array without copying it if the array starts at a multiple of 64 bytes.
    room = np.empty(size + ALIGN, np.uint8)
    begin = -room.ctypes.data % ALIGN
    body = room[begin : begin + size]
    _read(peer, body)
    leaves, at = [], 0
    for _, length in message.leaves:
        at += -at % ALIGN
        leaves.append(body[at : at + length])
        at += length
    return message, leaves


def _read(peer: socket.socket, room: Any) -> Any:
    view = memoryview(room)
    while view:
        try:
            count = peer.recv_into(view, flags=socket.MSG_WAITALL)
        except OSError:
            count = 0
        if not count:
            raise EOFError
        view = view[count:]
    return room
