"""Decides which histograms and pictures a run's log keeps in memory; the store has all of them. Pure."""

from __future__ import annotations

from collections import deque

from ...schema.events import Picture, encode_event

MOST_BYTES = 16 << 20
"""Of a run, in the process that numbers its events. The rest is in the store."""
ENDED_BYTES = 1 << 20
"""The same for a run that has ended."""
MOST_NOT_TAKEN = 64 << 20
"""Of those that nobody has taken to the store yet: no burst is lost to it, and a store that is away costs no more."""

NOT_KEPT = encode_event(Picture(time=0.0, task="", name="", step=0.0, png=b"", width=0, height=0))
"""What stands in the place of one that is not kept, so that numbers have no gaps: a picture of nothing, which changes
nothing for who reads it."""


class MediaTail:
    """Decides which of them go when new ones come: the oldest, those first that the store has."""

    def __init__(self) -> None:
        self.most_bytes = MOST_BYTES
        self._events: deque[tuple[int, int]] = deque()  # (seq, bytes), oldest first
        self._total = 0

    def add(self, seq: int, size: int) -> None:
        self._events.append((seq, size))
        self._total += size

    def shrink(self, taken: int) -> list[int]:
        """Keep no more than there is room for; returns the numbers of those that go. Events below the number ``taken``
        are on their way to the store.
        """
        gone = []
        while self._total > self.most_bytes and (self._events[0][0] < taken or self._total > MOST_NOT_TAKEN):
            seq, size = self._events.popleft()
            self._total -= size
            gone.append(seq)
        return gone
