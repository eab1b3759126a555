"""Tracks how much of a stream has been sent to each task, and the data that is being sent now."""

from __future__ import annotations

import socket
from typing import Any

import msgspec

from ..backend.task.fit.sources.base import Share


class Cursor:
    """The position of a task in a stream: how much of its share has been sent to it."""

    def __init__(self, peer: socket.socket, share: Share) -> None:
        self.peer: socket.socket | None = peer
        self.share = share
        self.next = 0
        self.start = 0
        """The position at which the task's pass started, in a stream of several passes."""
        self.until: int | None = None
        """The position at which the task's pass ends, if it ends before the stream does."""
        self.pending: list[memoryview] = []
        self.is_over = False
        """Whether the last message has been prepared."""
        self.note = ""
        """A note for the task to report to its run, sent with the next message."""
        self.is_watched = False
        self.follows = True
        """Whether the task continues to read the stream, rather than reading its first batches again."""

    @property
    def following(self) -> int | None:
        """The number of the batch that the task needs next; None if it only reads the first batches again."""
        return self.next if self.follows else None

    def take(self, sent: int) -> None:
        """Record that ``sent`` bytes of the pending data have been sent."""
        done = 0
        while done < len(self.pending) and sent >= len(self.pending[done]):
            sent -= len(self.pending[done])
            done += 1
        del self.pending[:done]
        if sent:
            self.pending[0] = self.pending[0][sent:]


def part_of(leaf: Any, low: int, high: int) -> Any:
    """Return a task's share of an array in a batch, rows ``low`` to ``high`` - 1, in the form in which it is sent."""
    part = leaf[low:high]
    return msgspec.msgpack.encode(part.reshape(-1).tolist()) if part.dtype == object else part


def exactly(peer: socket.socket, count: int) -> bytes:
    """Receive exactly ``count`` bytes. Raises OSError if the peer has disconnected."""
    data = bytearray()
    while len(data) < count:
        piece = peer.recv(count - len(data))
        if not piece:
            raise OSError
        data += piece
    return bytes(data)
