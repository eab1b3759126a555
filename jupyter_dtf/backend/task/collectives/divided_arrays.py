"""Divides arrays, which are reduced in one exchange, among the tasks. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy.typing as npt

_LINE = 64  # the size of a cache line in bytes: no two tasks write to the same line


class Cells:
    """One-dimensional arrays of one dtype, concatenated and cut into cells, which are assigned to tasks in rotation."""

    def __init__(self, arrays: Sequence[npt.NDArray[Any]], size: int, cell_bytes: int) -> None:
        item = arrays[0].itemsize
        self._starts = [0, *accumulate(a.size for a in arrays)]
        self._size = size
        fair = -(-self._starts[-1] * item // size // _LINE) * _LINE  # if there is less than a full cell per task
        self._length = max(_LINE, min(cell_bytes, fair)) // item
        self._item = item
        self.rounds = -(-self._starts[-1] // (self._length * size))

    def pieces(self, round_: int, owner: int) -> list[tuple[int, int, int, int]]:
        """Return the contents of the owner's cell in a round: for each piece of an array, the array's index, the
        piece's start and stop in the array, and its offset in the cell in bytes.
        """
        begin = (round_ * self._size + owner) * self._length
        end = min(begin + self._length, self._starts[-1])
        found = []
        at, index = begin, bisect_right(self._starts, begin) - 1
        while at < end:
            stop = min(end, self._starts[index + 1])
            if stop > at:
                found.append((index, at - self._starts[index], stop - self._starts[index], (at - begin) * self._item))
            at, index = stop, index + 1
        return found
