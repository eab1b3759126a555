"""Functions that a ``ps`` task uses to read the payloads of workers' messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .messages import Push
from .shard import Gradient, Shard, SparsePiece
from .wire import Bytes, Reader


def gradient(word: Push, payload: Bytes, shard: Shard) -> Gradient:
    """Return the gradient that a ``Push`` message contains, as views of the payload."""
    reader = Reader(payload)
    elsewhere = {*word.absent, *(piece for piece, *_ in word.sparse)}
    size = sum(piece.size for i, piece in enumerate(shard.pieces) if i not in elsewhere)
    dense = reader.take(shard.dtype, size)
    sparse = []
    for i, rows, keyed in word.sparse:
        shape = shard.pieces[i].shape[1:]
        indices = reader.take(np.int64, rows)
        keys = reader.take(np.int64, rows) if keyed else None
        values = reader.take(shard.dtype, rows * int(np.prod(shape))).reshape(rows, *shape)
        sparse.append(SparsePiece(i, indices, keys, values))
    return Gradient(word.examples, dense, tuple(sparse), word.absent, word.counts)


def arrays(payload: Bytes, shapes: list[tuple[Any, int]]) -> list[npt.NDArray[Any]]:
    """Return the consecutive arrays in a payload, as views. ``shapes``: the dtype and the number of items of each
    array.
    """
    reader = Reader(payload)
    return [reader.take(dtype, size) for dtype, size in shapes]
