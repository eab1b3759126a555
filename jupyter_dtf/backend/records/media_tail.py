"""Decides which media items, such as images, a run's log keeps in memory. The store has all of them. Pure."""

from __future__ import annotations

from collections import deque

from ...schema.events import Picture, encode_event

MOST_BYTES = 16 << 20
"""The maximum number of bytes kept per run in the process that numbers its events. The rest is in the store."""
ENDED_BYTES = 1 << 20
"""The maximum number of bytes kept per run after its end."""
MOST_NOT_TAKEN = 64 << 20
"""The maximum number of bytes kept per run that are not in the store yet.

This is enough for a burst of media, and for some time in which the store is unavailable.
"""

NOT_KEPT = encode_event(Picture(time=0.0, task="", name="", step=0.0, png=b"", width=0, height=0))
"""Replaces an item that is dropped, so that sequence numbers have no gaps: an empty image, which readers ignore."""


class MediaTail:
    """Decides which items to drop when new ones arrive: the oldest, starting with those in the store."""

    def __init__(self) -> None:
        self.most_bytes = MOST_BYTES
        self._events: deque[tuple[int, int]] = deque()  # (seq, bytes), oldest first
        self._total = 0

    def add(self, seq: int, size: int) -> None:
        self._events.append((seq, size))
        self._total += size

    def shrink(self, taken: int) -> list[int]:
        """Return the sequence numbers of items to drop to stay within the limits.

        Events with sequence numbers below ``taken`` have been passed to the store.
        """
        gone = []
        while self._total > self.most_bytes and (self._events[0][0] < taken or self._total > MOST_NOT_TAKEN):
            seq, size = self._events.popleft()
            self._total -= size
            gone.append(seq)
        return gone
