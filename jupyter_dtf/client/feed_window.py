"""Decides which batches of a stream are kept, and whether another one may be read. Pure.

A batch is kept until it has been sent to every task, and for a while longer, because restarted tasks continue a little
before the position where they were lost. The first batches are always kept.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

AHEAD_BYTES = 32 << 20
"""Limit in bytes for batches that have not been sent to every task yet."""
AHEAD = 2
"""The number of batches that may be read ahead regardless of their size."""
BACK_BYTES = 32 << 20
"""Limit in bytes for batches that have been sent to every task."""
BACK = 6
"""The number of sent batches that are kept regardless of their size: tasks may not have used them in a step yet."""


@dataclass(frozen=True)
class Batch:
    """The leaves of a batch: arrays with equal numbers of examples."""

    leaves: list[Any]
    examples: int
    size: int
    """The size of the leaves in bytes."""


class Window:
    """The kept batches of a stream: numbers ``first`` to ``count`` - 1, and in any case the first ``heads`` batches."""

    def __init__(self, heads: int = 2) -> None:
        self.heads = heads
        self._head: list[Batch] = []
        self._kept: deque[Batch] = deque()
        self._back_bytes = 0
        self._ahead_bytes = 0
        self.first = 0
        self._low = 0
        self.ended: int | None = None
        """The length of the stream in batches, once it is known."""

    @property
    def count(self) -> int:
        """The number of batches that have been read."""
        return self.first + len(self._kept)

    def add(self, batch: Batch) -> None:
        """Add the next batch."""
        if len(self._head) < self.heads and self.count == len(self._head):
            self._head.append(batch)
        self._kept.append(batch)
        self._ahead_bytes += batch.size

    def get(self, number: int) -> Batch | None:
        """Return batch ``number``, from 0, which must have been read; None if it is no longer kept."""
        if number < len(self._head):
            return self._head[number]
        return self._kept[number - self.first] if number >= self.first else None

    def has(self, number: int) -> bool:
        """Return whether all batches that have been read, from ``number`` on, are still kept."""
        return number >= self.first or len(self._head) >= self.first

    def move(self, low: int) -> None:
        """Record that every task has been sent the batches before ``low``, or will continue from there."""
        low = min(max(low, self.first), self.count)
        for number in range(self._low, low):
            self._pass(self._kept[number - self.first].size)
        for number in range(low, self._low):
            self._pass(-self._kept[number - self.first].size)
        self._low = low
        while self._low - self.first > BACK and self._back_bytes > BACK_BYTES:
            self._back_bytes -= self._kept.popleft().size
            self.first += 1

    def _pass(self, size: int) -> None:
        self._ahead_bytes -= size
        self._back_bytes += size

    @property
    def has_room(self) -> bool:
        """Whether the next batch may be read."""
        if self.ended is not None:
            return False
        return self.count - self._low < AHEAD or self._ahead_bytes < AHEAD_BYTES
