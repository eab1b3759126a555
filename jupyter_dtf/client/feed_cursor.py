"""How far each task that reads a stream has been sent its shares, and what is still on its way."""

from __future__ import annotations

import socket
from typing import Any

import msgspec

from ..backend.task.fit.sources.base import Share


class Cursor:
    """How far a task has been sent its shares."""

    def __init__(self, peer: socket.socket, share: Share) -> None:
        self.peer: socket.socket | None = peer
        self.share = share
        self.next = 0
        self.start = 0
        """Where its pass has begun, in a stream of several."""
        self.until: int | None = None
        """The pass ends before this batch, if it ends before the stream does."""
        self.pending: list[memoryview] = []
        self.is_over = False
        """Whether the last message was taken up."""
        self.note = ""
        """What the task is to tell its run, with the next message."""
        self.is_watched = False
        self.follows = True
        """Whether it goes through the stream, rather than through its first batches again."""

    @property
    def following(self) -> int | None:
        """The batch that it wants next of the stream."""
        return self.next if self.follows else None

    def take(self, sent: int) -> None:
        """So many bytes of what is pending have been sent."""
        done = 0
        while done < len(self.pending) and sent >= len(self.pending[done]):
            sent -= len(self.pending[done])
            done += 1
        del self.pending[:done]
        if sent:
            self.pending[0] = self.pending[0][sent:]


def part_of(leaf: Any, low: int, high: int) -> Any:
    """A task's rows of an array of a batch, as they are sent."""
    part = leaf[low:high]
    return msgspec.msgpack.encode(part.reshape(-1).tolist()) if part.dtype == object else part


def exactly(peer: socket.socket, count: int) -> bytes:
    """So many bytes. Raises OSError where the other end has gone."""
    data = bytearray()
    while len(data) < count:
        piece = peer.recv(count - len(data))
        if not piece:
            raise OSError
        data += piece
    return bytes(data)
