"""What a client that reads a stream and the tasks that train on it say to each other, over a Unix socket.

A task says ``Hello`` once, with what it wants, and from then on only hears: messages of a header (little-endian u32 and
u64: the lengths of what follows), a ``Message`` in MessagePack, and the values of the batch's leaves, each beginning at
a multiple of 64 bytes. Nothing here is unpickled.

The socket has an abstract name (``unix(7)``), so that nothing of it is left behind whoever is killed. Anybody in the
same network namespace can see that name: both ends ask the kernel who the other is, and a task tells the secret.
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


class Hello(msgspec.Struct, forbid_unknown_fields=True):
    """What a task wants of a stream: its share of batch after batch, from a place on."""

    secret: str
    rank: int
    size: int
    passes: int = 0
    """How many passes a training from epoch 0 would have begun, at the place where this one goes on."""
    within: int = 0
    """Batches of the first epoch that the task does not want, for they have been trained on."""
    passed: int = 0
    """The same of the epochs before it, where they are parts of one pass."""
    again: int = 0
    """How often the task's dataset has been begun again since."""
    only: int = 0
    """The pass is the first so many batches, every time; 0: it is all that there are."""
    in_parts: bool = False
    """Whether epochs are parts of one pass."""
    peek: int = 0
    """Only the first so many batches, if they are still there; no part in the training."""
    ended: bool = False
    """The task's program has ended: it wants nothing, now or later, and nobody is to wait for it."""


class Message(msgspec.Struct, omit_defaults=True):
    """A batch's number and the shapes of its leaves, or why there are no more: the pass has ended, or failed."""

    batch: int = -1
    leaves: list[tuple[tuple[int, ...], int]] = []
    """Of each leaf its shape, and how many bytes its values are."""
    error: str = ""
    detail: str = ""
    """The traceback, where something was raised."""
    is_input: bool = False
    """Whether the error is one of what was passed (InvalidInput)."""
    stopped: bool = False
    """Whether there would be more, had the run not been asked to stop."""
    note: str = ""
    """What the run is to be told."""


_encoder = msgspec.msgpack.Encoder()


def address_of(name: str) -> bytes:
    """The abstract address of a stream."""
    return b"\0jupyter_dtf-" + name.encode()


def is_own(peer: socket.socket) -> bool:
    """Whether the other end of a Unix socket is a process of this user, by the word of the kernel."""
    found = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", found)[1] == os.getuid())


def say(peer: socket.socket, hello: Hello) -> None:
    """Tell a client what a task wants. Raises OSError."""
    data = msgspec.msgpack.encode(hello)
    peer.sendall(HEADER.pack(len(data), 0) + data)


def encoded(message: Message, parts: Sequence[Any] = ()) -> list[Any]:
    """A message as buffers to send: ``parts`` are contiguous arrays or bytes, one for each leaf."""
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
    """The next message, and its leaves' values as arrays of bytes. Raises EOFError where the other end is gone."""
    meta_size, size = HEADER.unpack(_read(peer, bytearray(HEADER.size)))
    message = msgspec.msgpack.decode(_read(peer, bytearray(meta_size)), type=Message)
    if not message.leaves:
        return message, []
    # TensorFlow takes an array as it is, without a copy, where it begins at such a multiple.
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
