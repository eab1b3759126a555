"""Determines which rows of each partition a task gets.

The partitions' lengths become known only as the partitions are computed. The rows of a pass are the rows of all
partitions, in the order of the pass. Batch k consists of rows ``k * batch_size`` to ``(k + 1) * batch_size``, of which
every task gets a contiguous share. The last batch may be smaller.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Integers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Block:
    """Partitions whose rows are shuffled together; a single partition if the order is kept."""

    partitions: tuple[int, ...]
    lengths: tuple[int, ...]
    order: Integers | None = None
    """The row at each position in the block, counted across the partitions; None keeps the order."""
    most: int = 1 << 40
    """The maximum number of rows, over all tasks, that a piece of the block spans."""

    @property
    def rows(self) -> int:
        return sum(self.lengths)


@dataclass(frozen=True)
class Piece:
    """Rows of one block for one task: the task gets row ``places[0]`` of the block, then ``places[1]``, and so on."""

    block: Block
    places: Integers
    counts: Integers
    """The number of these rows in each batch. The first of these batches may have begun in the previous piece."""
    is_closed: bool

    def sources(self) -> Iterator[tuple[int, Integers, Integers]]:
        """For each partition that contributes rows, yield its number, its rows, and their positions in the piece."""
        rows = self.places if self.block.order is None else self.block.order[self.places]
        begin = 0
        for partition, length in zip(self.block.partitions, self.block.lengths, strict=True):
            (chosen,) = np.nonzero((rows >= begin) & (rows < begin + length))
            if len(chosen):
                yield partition, rows[chosen] - begin, chosen
            begin += length


class Router:
    """Cuts blocks, added in the order of the pass, into pieces for one task, starting at batch ``first``."""

    def __init__(self, batch_size: int, rank: int, size: int, first: int = 0) -> None:
        self._batch = batch_size
        self._rank = rank
        self._size = size
        self._blocks: list[tuple[int, Block]] = []
        self._known = 0
        self._done = first * batch_size

    def add(self, block: Block) -> list[Piece]:
        """Add a block and return the pieces that are ready. The shares of a batch are unknown until it is full."""
        if block.rows:
            self._blocks.append((self._known, block))
            self._known += block.rows
        return self._cut(self._known // self._batch * self._batch)

    def end(self) -> list[Piece]:
        """Return the remaining pieces, after the last block."""
        return self._cut(self._known)

    def _cut(self, limit: int) -> list[Piece]:
        pieces: list[Piece] = []
        while self._done < limit:
            begin, block = self._blocks[0]
            if begin + block.rows <= self._done:
                del self._blocks[0]
                continue
            stop = min(limit, begin + block.rows, self._done + block.most)
            pieces.append(self._piece(begin, block, stop, limit))
            self._done = stop
            if stop == begin + block.rows:
                del self._blocks[0]
        return pieces

    def _piece(self, begin: int, block: Block, stop: int, limit: int) -> Piece:
        first, last = self._done // self._batch, (stop - 1) // self._batch
        batches = np.arange(first, last + 1)
        starts = batches * self._batch
        sizes = np.minimum(self._batch, limit - starts)
        low = np.clip(starts + sizes * self._rank // self._size, self._done, stop)
        high = np.clip(starts + sizes * (self._rank + 1) // self._size, self._done, stop)
        counts = high - low
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        places = np.repeat(low, counts) + within - begin
        return Piece(block, places, counts, is_closed=bool(stop == starts[-1] + sizes[-1]))


def order_of(partitions: int, seed: int | None, number: int) -> list[int]:
    """Return the order of the partitions in a pass: shuffled by ``seed`` and the pass number, or unchanged."""
    if seed is None:
        return list(range(partitions))
    return [int(each) for each in np.random.default_rng([seed, number]).permutation(partitions)]


def rows_order(rows: int, seed: int | None, number: int, block: int) -> Integers | None:
    """Return the order in which the rows of a block are sent, or None if their order is kept."""
    return None if seed is None else np.random.default_rng([seed, number, block]).permutation(rows)
