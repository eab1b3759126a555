"""The contract of a reducer, and what follows from one primitive, the reduction of tensors."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

# TensorFlow 2.21: code that a graph may be building around must run eagerly; tf.init_scope leaves only functions.
from tensorflow.python.eager.context import eager_mode

from ....errors import InvalidInput, Unavailable
from .calls import described_tensors

OPS = ("sum", "min", "max", "product")

Array = npt.NDArray[Any]

TYPES = {
    tf.bool: "bool",
    tf.uint8: "uint8",
    tf.uint16: "uint16",
    tf.uint32: "uint32",
    tf.int8: "int8",
    tf.int16: "int16",
    tf.int32: "int32",
    tf.int64: "int64",
    tf.float16: "float16",
    tf.bfloat16: "bfloat16",
    tf.float32: "float32",
    tf.float64: "float64",
}


class Reducer(ABC):
    """Exchanges between ``size`` tasks. Collectives: every task calls the same methods in the same order.

    Shapes and types are equal on all tasks, except for the first dimension where a method says so. Every task gets the
    same bits. A call returns when all tasks have made it, and raises RuntimeError if one of them has died or, where
    that can be seen, has called something else. Types: bool, uint8 to uint32, int8 to int64, bfloat16, float16 to
    float64.

    What takes tensors works in a ``tf.function`` and outside of one; nothing of it has a gradient (``ops`` has).
    ``name`` is the same on all tasks.
    """

    keeps_order = False
    """Whether collectives in a ``tf.function`` run in the order of the program. Where not, ops of one name meet."""

    is_timed = False
    """Whether ``own_time`` knows how long its exchanges take."""

    bucket_bytes = 64 << 20
    """How much of a model's gradients is best sent at a time, while the rest is still being computed."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size

    # -- tensors ------------------------------------------------------------------------------------------------

    @abstractmethod
    def reduce_tensors(self, tensors: Sequence[tf.Tensor], op: str, name: str) -> list[tf.Tensor]:
        """Each tensor's reduction over the tasks, in one exchange. ``op``: sum, min, max or product.

        Booleans have no sum.
        """

    def sum_tensor(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """The sum over the tasks."""
        return self.reduce_tensors([tensor], "sum", name)[0]

    def gather_tensor(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """All tasks' tensors, one after the other along the first dimension, which may differ from task to task."""
        return self.gather_rows(tensor, name)[0]

    def gather_rows(self, tensor: tf.Tensor, name: str) -> tuple[tf.Tensor, tf.Tensor]:
        """``gather_tensor``, and how many rows came from each task, int64 of shape (size,)."""
        name = described_tensors(name, [tensor], free_rows=True)  # bits travel: their type would not show
        own = tf.one_hot(self.rank, self.size, dtype=tf.int64) * tf.shape(tensor, tf.int64)[0]
        rows = self.sum_tensor(own, f"{name} rows")
        before, after = tf.reduce_sum(rows[: self.rank]), tf.reduce_sum(rows[self.rank + 1 :])
        paddings = tf.concat([[[before, after]], tf.zeros([len(tensor.shape) - 1, 2], tf.int64)], 0)
        blank = tf.pad(_as_integers(tensor), paddings)  # the others add zeros
        gathered = _from_integers(self.sum_tensor(blank, name), tensor.dtype)
        return tf.ensure_shape(gathered, [None, *tensor.shape[1:]]), rows

    def broadcast_tensors(self, tensors: Sequence[tf.Tensor], root: int, name: str) -> list[tf.Tensor]:
        """The tensors of the task of rank ``root``."""
        name = described_tensors(f"{name} from {root}", tensors)
        sent = [_as_integers(tensor) for tensor in tensors]
        if self.rank != root:
            sent = [tf.zeros_like(tensor) for tensor in sent]
        received = self.reduce_tensors(sent, "sum", name)
        return [
            tf.ensure_shape(_from_integers(total, tensor.dtype), tensor.shape)
            for total, tensor in zip(received, tensors, strict=True)
        ]

    def exchange_rows(self, tensor: tf.Tensor, splits: tf.Tensor, name: str) -> tuple[tf.Tensor, tf.Tensor]:
        """Row ``i`` of ``splits``, int64 of shape (size,), is how many rows, in order, go to the task of rank ``i``.

        Returns what the tasks sent to this one, by rank, and how many rows came from each.
        """
        sent = tf.concat([tf.shape(tensor, tf.int64)[:1], splits], 0)
        said = tf.reshape(
            self.gather_tensor(sent, described_tensors(name, [tensor], free_rows=True)), [self.size, self.size + 1]
        )
        fits = tf.reduce_all(said >= 0) & tf.reduce_all(tf.reduce_sum(said[:, 1:], 1) <= said[:, 0])
        with tf.control_dependencies([tf.debugging.Assert(fits, [_SPLITS_RULE, said])]):
            everyones = tf.identity(said[:, 1:])
        rows = self.gather_tensor(tensor[: tf.reduce_sum(splits)], name)
        ends = tf.cumsum(tf.reshape(everyones, [-1]))  # rows lie in order of sender, then receiver
        parts = []
        for sender in range(self.size):
            piece = sender * self.size + self.rank
            parts.append(rows[ends[piece] - everyones[sender, self.rank] : ends[piece]])
        return tf.concat(parts, 0), everyones[:, self.rank]

    # -- arrays, at once, also while a graph of TensorFlow 1 is built -------------------------------------------

    def reduce(self, array: Array, op: str = "sum") -> Array:
        """The reduction over the tasks; a new array of the same type and shape."""
        with eager_mode():
            return np.asarray(self.reduce_tensors([tf.constant(array)], op, _outside(array))[0])

    def sum(self, array: Array) -> Array:
        """The sum over the tasks; a new array of the same type and shape."""
        return self.reduce(array, "sum")

    def gather(self, array: Array) -> list[Array]:
        """Every task's array, by rank. The first dimension may differ."""
        with eager_mode():
            rows, counts = self.gather_rows(tf.constant(array), _outside(array[:0]))
        return np.split(np.asarray(rows), np.cumsum(counts)[:-1])

    def broadcast(self, arrays: Sequence[Array], root: int = 0) -> list[Array]:
        """The arrays of the task of rank ``root``; any types of fixed size."""
        arrays = [np.asarray(a) for a in arrays]
        sent = np.concatenate([_as_bytes(a) for a in arrays] or [np.zeros(0, np.uint8)])
        with eager_mode():
            (received,) = self.broadcast_tensors([tf.constant(sent)], root, _outside(sent))
        ends = np.cumsum([a.nbytes for a in arrays])
        return [
            np.asarray(received)[end - a.nbytes : end].view(a.dtype).reshape(a.shape)
            for end, a in zip(ends, arrays, strict=True)
        ]

    def all_gather(self, value: Any) -> list[Any]:
        """Every task's value, by rank. Picklable objects."""
        return [pickle.loads(data.tobytes()) for data in self.gather(np.frombuffer(pickle.dumps(value), np.uint8))]

    @abstractmethod
    def close(self, failed: bool = False) -> None:
        """Leave. ``failed`` tells the others not to wait for this task any more."""

    @property
    def interrupted(self) -> bool:
        """Whether the last collective failed because another task has left as failed, and ``renew`` may help."""
        return False

    def wake(self) -> None:  # noqa: B027
        """Called in another thread: if this one waits in a collective, it shall look whether that has a sense still."""

    def give_up(self, why: str) -> None:  # noqa: B027
        """Called in another thread while this one waits in a collective: it shall raise DifferentCalls if it can."""

    def join(self) -> int:
        """Take part with zeros in the others' sums until all tasks have come here; the rank of the last.

        Raises Unavailable where that cannot be.
        """
        raise Unavailable(
            "A task can only join while the others go on where all tasks are on one machine, or each on one of its own"
        )

    def renew(self) -> None:
        """Leave as failed and begin anew, when all tasks do so: a collective. What was traced before goes on working.

        Raises Unavailable where that cannot be.
        """
        raise Unavailable(
            "TensorFlow's collectives cannot begin anew in a process in which they have failed. Going back to a commit "
            "needs the tasks of different machines to exchange by TCP, as those without GPUs do"
        )


def check_op(op: str, dtype: tf.DType) -> None:
    """Raise InvalidInput unless values of the type can be reduced so."""
    if op not in OPS:
        raise InvalidInput(f"op is one of {', '.join(OPS)}. Received: {op!r}", field="op")
    if dtype not in TYPES:
        names = ", ".join(TYPES.values())
        raise InvalidInput(f"`tensor` must be of one of the types {names}, got {dtype.name}", field="tensor")
    if dtype == tf.bool and op == "sum":
        raise InvalidInput('Booleans are reduced by op="min", "max" or "product". Received: op="sum"', field="op")


_SPLITS_RULE = "splits are numbers of rows, at least 0, together no more than there are."


def check_splits(everyones: Sequence[tuple[int, Array]], tasks: Sequence[str]) -> None:
    """Raise InvalidInput unless the splits of every task, given with its number of rows, say where rows go."""
    for (rows, splits), task in zip(everyones, tasks, strict=True):
        if splits.sum() > rows or (splits < 0).any():
            raise InvalidInput(f"{_SPLITS_RULE} Received: {splits.tolist()} for {rows} rows on {task}", field="splits")


def _outside(array: Array) -> str:
    return f"outside of a step {array.dtype.name} {array.shape}"


def _as_bytes(array: Array) -> Array:
    flat: Array = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return flat


_INTEGERS = {1: tf.uint8, 2: tf.int16, 4: tf.int32, 8: tf.int64}  # by size in bytes


def _as_integers(tensor: tf.Tensor) -> tf.Tensor:
    """The bits as integers: adding zeros changes none of them, not even a zero's sign."""
    if tensor.dtype == tf.bool:
        return tf.cast(tensor, tf.uint8)
    return tf.bitcast(tensor, _INTEGERS[tensor.dtype.size])


def _from_integers(tensor: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    return tf.cast(tensor, tf.bool) if dtype == tf.bool else tf.bitcast(tensor, dtype)


class Alone(Reducer):
    """The only task: what it sends is what it gets."""

    keeps_order = True
    is_timed = True

    def __init__(self) -> None:
        super().__init__(rank=0, size=1)

    def reduce(self, array: Array, op: str = "sum") -> Array:
        check_op(op, tf.as_dtype(array.dtype))
        copied: Array = array.copy()
        return copied

    def reduce_tensors(self, tensors: Sequence[tf.Tensor], op: str, name: str) -> list[tf.Tensor]:
        for tensor in tensors:
            check_op(op, tensor.dtype)
        return list(tensors)

    def join(self) -> int:
        return 0

    def renew(self) -> None:
        pass

    def close(self, failed: bool = False) -> None:
        pass
