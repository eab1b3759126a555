"""Distributes variables over the ``ps`` tasks, splitting large ones by rows.

Pure: every task computes the same layout from the shapes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Piece:
    """The rows of a variable from ``first`` up to, but not including, ``first + rows``, or the whole variable.
    ``shape`` is the shape of the piece.
    """

    variable: int
    """The index in ``model.trainable_variables``."""
    server: int
    shape: tuple[int, ...]
    first: int = 0
    is_whole: bool = True

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def rows(self) -> int:
        return self.shape[0] if self.shape else 1


def spread(
    shapes: Sequence[tuple[int, ...]], item_bytes: Sequence[int], can_split: Sequence[bool], servers: int, limit: int
) -> list[Piece]:
    """Return the placement of the variables, ordered by server, then by variable.

    A variable of more than ``limit`` bytes for which ``can_split`` is true, and which has at least one row per server,
    is split evenly by rows over all servers. The other variables are placed whole, largest first, on the server that
    then holds the fewest bytes.
    """
    sizes = [math.prod(shape) * item for shape, item in zip(shapes, item_bytes, strict=True)]
    held = [0] * servers
    pieces = []
    whole = []
    for index, shape in enumerate(shapes):
        if servers > 1 and can_split[index] and sizes[index] > limit and shape and shape[0] >= servers:
            bounds = [shape[0] * server // servers for server in range(servers + 1)]
            for server in range(servers):
                rows = bounds[server + 1] - bounds[server]
                pieces.append(Piece(index, server, (rows, *shape[1:]), bounds[server], is_whole=False))
                held[server] += rows * sizes[index] // shape[0]
        else:
            whole.append(index)
    for index in sorted(whole, key=lambda index: (-sizes[index], index)):
        server = min(range(servers), key=lambda server: (held[server], server))
        held[server] += sizes[index]
        pieces.append(Piece(index, server, tuple(shapes[index])))
    return sorted(pieces, key=lambda piece: (piece.server, piece.variable))
