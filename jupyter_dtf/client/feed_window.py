"""Pure: which batches of a stream are kept, and whether there is room for more.

A batch is kept until every task has been sent it, and for a while longer: tasks that are started again go on a little
before the place where they were lost. The first ones are kept throughout.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

AHEAD_BYTES = 32 << 20
"""Of batches that not every task has been sent."""
AHEAD = 2
"""Batches that may be ahead, however large they are."""
BACK_BYTES = 32 << 20
"""Of batches that every task has been sent."""
BACK = 6
"""Batches that are kept then, however large they are: what may lie between this process and a step that is done."""


@dataclass(frozen=True)
class Batch:
    """The leaves of a batch: arrays with as many examples each."""

    leaves: list[Any]
    examples: int
    size: int
    """Bytes."""


class Window:
    """The batches ``first`` up to ``count`` of a stream, and its first ``heads`` ones."""

    def __init__(self, heads: int = 2) -> None:
        self.heads = heads
        self._head: list[Batch] = []
        self._kept: deque[Batch] = deque()
        self._back_bytes = 0
        self._ahead_bytes = 0
        self.first = 0
        self._low = 0
        self.ended: int | None = None
        """How many batches there are, once that is known."""

    @property
    def count(self) -> int:
        """How many have been read."""
        return self.first + len(self._kept)

    def add(self, batch: Batch) -> None:
        """The next one."""
        if len(self._head) < self.heads and self.count == len(self._head):
            self._head.append(batch)
        self._kept.append(batch)
        self._ahead_bytes += batch.size

    def get(self, number: int) -> Batch | None:
        """Batch ``number``, from 0; None if it is not kept any more. It must have been read."""
        if number < len(self._head):
            return self._head[number]
        return self._kept[number - self.first] if number >= self.first else None

    def has(self, number: int) -> bool:
        """Whether all batches from ``number`` on are kept, as far as they have been read."""
        return number >= self.first or len(self._head) >= self.first

    def move(self, low: int) -> None:
        """Every task has been sent the batches before ``low``, or wants them again from there."""
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
