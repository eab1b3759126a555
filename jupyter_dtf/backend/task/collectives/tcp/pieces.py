"""Divides arrays among the tasks of a ring: one chunk per task, in pieces. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

Part = tuple[int, int, int]
"""The index of an array, and the start and end of a range of its items."""

Piece = tuple[Part, ...]


def chunks(sizes: Sequence[int], tasks: int, most: int) -> list[list[Piece]]:
    """Divide the concatenation of arrays of the given sizes into one chunk per task. Return each chunk as a list of
    pieces of at most ``most`` items.
    """
    starts = [0, *accumulate(sizes)]
    bounds = [starts[-1] * task // tasks for task in range(tasks + 1)]
    return [
        [_parts(starts, begin, min(begin + most, end)) for begin in range(first, end, most)]
        for first, end in pairwise(bounds)
    ]


def _parts(starts: Sequence[int], begin: int, end: int) -> Piece:
    found = []
    at, index = begin, bisect_right(starts, begin) - 1
    while at < end:
        stop = min(end, starts[index + 1])
        if stop > at:
            found.append((index, at - starts[index], stop - starts[index]))
        at, index = stop, index + 1
    return tuple(found)
