"""Decides which output of a run stays in memory: the last lines of every stream, up to a limit per run. Pure."""

from __future__ import annotations

from collections import deque

import msgspec

from ...schema.events import Logged, encode_event

MOST_BYTES = 2 << 20
"""The maximum number of bytes of output kept per run. The rest is in the run's files."""
ENDED_BYTES = 256 << 10
"""The maximum number of bytes of output kept per run after its end."""

Source = tuple[str, str]
"""The task and the stream that output comes from."""


class _LogSource(msgspec.Struct, tag_field="type", tag="log"):
    task: str
    stream: str


_decode_source = msgspec.msgpack.Decoder(_LogSource).decode


def log_source(data: bytes) -> Source:
    """Return the source of an encoded ``Logged`` without reading its lines. Raises msgspec.ValidationError."""
    source = _decode_source(data)
    return source.task, source.stream


class OutputTail:
    """Decides which events with output to drop when new ones arrive: the oldest of the largest stream."""

    def __init__(self) -> None:
        self._events: dict[Source, deque[tuple[int, int]]] = {}  # (seq, bytes), oldest first
        self._bytes: dict[Source, int] = {}
        self._total = 0

    def add(self, seq: int, source: Source, size: int) -> list[tuple[int, Source]]:
        """Add an event, and return ``(seq, source)`` for each event to drop."""
        self._events.setdefault(source, deque()).append((seq, size))
        self._bytes[source] = self._bytes.get(source, 0) + size
        self._total += size
        return self.shrink(MOST_BYTES)

    def shrink(self, most_bytes: int) -> list[tuple[int, Source]]:
        """Return ``(seq, source)`` for each event to drop to stay within this many bytes.

        The newest event of every stream is kept.
        """
        gone = []
        while self._total > most_bytes:
            source = max((source for source in self._events if len(self._events[source]) > 1),
                         key=self._bytes.__getitem__, default=None)  # fmt: skip
            if source is None:
                break
            seq, size = self._events[source].popleft()
            self._bytes[source] -= size
            self._total -= size
            gone.append((seq, source))
        return gone


class EmptiedEvents:
    """Placeholders for events whose lines are dropped, so that sequence numbers have no gaps; one per stream."""

    def __init__(self) -> None:
        self._encoded: dict[Source, bytes] = {}

    def of(self, source: Source) -> bytes:
        """Return the encoded placeholder of a stream, which is the same object every time."""
        data = self._encoded.get(source)
        if data is None:
            task, stream = source
            data = encode_event(Logged(time=0.0, task=task, stream=stream, first=0, lines=[]))
            self._encoded[source] = data
        return data
