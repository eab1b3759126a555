"""The contract of a reducer, and what follows from one primitive, the sum."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf


class Reducer(ABC):
    """Sums over ``size`` tasks. A collective: every task calls the same methods in the same order, with equal shapes.

    Every task gets the same bits. A call returns when all tasks have made it, and raises RuntimeError if one of them
    has died. One thread at a time.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size

    @abstractmethod
    def sum(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The sum over the tasks of a one-dimensional array; a new array of the same type."""

    @abstractmethod
    def sum_tensor(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """``sum`` as an op, in a ``tf.function`` or outside of one.

        Ops of one name meet each other, also from the two branches of a ``tf.cond``; two that may be under way at once
        have different names.
        """

    @abstractmethod
    def close(self, failed: bool = False) -> None:
        """Leave. ``failed`` tells the others not to wait for this task any more."""

    def broadcast(self, arrays: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Rank 0's arrays, on every task. Shapes and types are equal everywhere; any fixed-size type."""
        arrays = [np.asarray(a) for a in arrays]
        blob = np.zeros(sum(_padded(a.nbytes) for a in arrays), np.uint8)
        if self.rank == 0:
            for start, array in zip(_starts(arrays), arrays, strict=True):
                blob[start : start + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        blob = self._sum_bytes(blob)  # the others add zeros
        return [
            blob[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
            for start, array in zip(_starts(arrays), arrays, strict=True)
        ]

    def all_gather(self, value: Any) -> list[Any]:
        """Every task's value, by rank. Small picklable objects."""
        data = np.frombuffer(pickle.dumps(value), np.uint8)
        sizes = np.zeros(self.size, np.int64)
        sizes[self.rank] = data.size
        sizes = self.sum(sizes)
        starts = np.concatenate([[0], np.cumsum([_padded(int(s)) for s in sizes])])
        blob = np.zeros(starts[-1], np.uint8)
        blob[starts[self.rank] : starts[self.rank] + data.size] = data
        blob = self._sum_bytes(blob)
        return [pickle.loads(blob[starts[r] : starts[r] + sizes[r]].tobytes()) for r in range(self.size)]

    def _sum_bytes(self, blob: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Bytes that are zero on all tasks but one; length a multiple of 8."""
        total: npt.NDArray[Any] = self.sum(blob.view(np.int64)).view(np.uint8)
        return total


def _padded(nbytes: int) -> int:
    return -(-nbytes // 8) * 8


def _starts(arrays: Sequence[npt.NDArray[Any]]) -> list[int]:
    ends = np.cumsum([0] + [_padded(a.nbytes) for a in arrays])
    return [int(e) for e in ends[:-1]]


class Alone(Reducer):
    """The only task: every sum is its own."""

    def __init__(self) -> None:
        super().__init__(rank=0, size=1)

    def sum(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        copied: npt.NDArray[Any] = array.copy()
        return copied

    def sum_tensor(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        return tensor

    def close(self, failed: bool = False) -> None:
        pass
