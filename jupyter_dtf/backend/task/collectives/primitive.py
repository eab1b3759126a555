"""The interface of reducers, with implementations of all collectives in terms of one primitive: reducing tensors."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import cloudpickle
import numpy as np
import numpy.typing as npt
import tensorflow as tf

# TensorFlow 2.21: code must run eagerly even while a graph is being built; tf.init_scope only exits functions' graphs.
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
    """Collectives between ``size`` tasks: every task must call the same methods in the same order.

    Shapes and dtypes must be equal in all tasks, except for the first dimension where a method allows it. All tasks get
    bitwise equal results. A call returns when all tasks have made it. It raises RuntimeError if one of them has died
    or, where this can be detected, has made a different call. Dtypes: bool, uint8 to uint32, int8 to int64, bfloat16,
    float16 to float64.

    Methods that take tensors work both inside and outside a ``tf.function``. They have no gradients (those in ``ops``
    do). ``name`` must be the same in all tasks.
    """

    keeps_order = False
    """Whether collectives in a ``tf.function`` run in program order. If not, the tasks' ops are matched by name."""

    is_timed = False
    """Whether ``time_accounts`` measures the duration of its exchanges."""

    bucket_bytes = 64 << 20
    """The best number of bytes of gradients to send in one exchange while other gradients are still being computed."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size

    # -- tensors ------------------------------------------------------------------------------------------------

    @abstractmethod
    def reduce_tensors(self, tensors: Sequence[tf.Tensor], op: str, name: str) -> list[tf.Tensor]:
        """Reduce each tensor over the tasks, in one exchange. ``op`` is sum (not for booleans), min, max or product."""

    def sum_tensor(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """Return the sum of the tensor over the tasks."""
        return self.reduce_tensors([tensor], "sum", name)[0]

    def gather_tensor(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """Return all tasks' tensors, concatenated along the first dimension. Its size may differ between tasks."""
        return self.gather_rows(tensor, name)[0]

    def gather_rows(self, tensor: tf.Tensor, name: str) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the result of ``gather_tensor``, and the number of rows from each task, int64 of shape (size,)."""
        name = described_tensors(name, [tensor], free_rows=True)  # integers are sent, so the name contains the dtype
        own = tf.one_hot(self.rank, self.size, dtype=tf.int64) * tf.shape(tensor, tf.int64)[0]
        rows = self.sum_tensor(own, f"{name} rows")
        before, after = tf.reduce_sum(rows[: self.rank]), tf.reduce_sum(rows[self.rank + 1 :])
        paddings = tf.concat([[[before, after]], tf.zeros([len(tensor.shape) - 1, 2], tf.int64)], 0)
        blank = tf.pad(_as_integers(tensor), paddings)  # other tasks add zeros there
        gathered = _from_integers(self.sum_tensor(blank, name), tensor.dtype)
        return tf.ensure_shape(gathered, [None, *tensor.shape[1:]]), rows

    def broadcast_tensors(self, tensors: Sequence[tf.Tensor], root: int, name: str) -> list[tf.Tensor]:
        """Return the tensors of the task with rank ``root``."""
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
        """Send each task some rows of ``tensor``.

        Element ``i`` of ``splits``, int64 of shape (size,), is the number of rows for rank ``i``.

        Returns the rows that the tasks have sent to this one, in rank order, and the number of rows from each.
        """
        sent = tf.concat([tf.shape(tensor, tf.int64)[:1], splits], 0)
        said = tf.reshape(
            self.gather_tensor(sent, described_tensors(name, [tensor], free_rows=True)), [self.size, self.size + 1]
        )
        fits = tf.reduce_all(said >= 0) & tf.reduce_all(tf.reduce_sum(said[:, 1:], 1) <= said[:, 0])
        with tf.control_dependencies([tf.debugging.Assert(fits, [_SPLITS_RULE, said])]):
            everyones = tf.identity(said[:, 1:])
        rows = self.gather_tensor(tensor[: tf.reduce_sum(splits)], name)
        ends = tf.cumsum(tf.reshape(everyones, [-1]))  # rows are ordered by sender, then by receiver
        parts = []
        for sender in range(self.size):
            piece = sender * self.size + self.rank
            parts.append(rows[ends[piece] - everyones[sender, self.rank] : ends[piece]])
        return tf.concat(parts, 0), everyones[:, self.rank]

    # -- arrays, eagerly, even while a TensorFlow 1 graph is being built ----------------------------------------

    def reduce(self, array: Array, op: str = "sum") -> Array:
        """Return ``array`` reduced over the tasks, as a new array of the same dtype and shape."""
        with eager_mode():
            return np.asarray(self.reduce_tensors([tf.constant(array)], op, _outside(array))[0])

    def sum(self, array: Array) -> Array:
        """Return the sum of ``array`` over the tasks, as a new array of the same dtype and shape."""
        return self.reduce(array, "sum")

    def gather(self, array: Array, name: str = "outside of a step") -> list[Array]:
        """Return every task's array, in rank order. The sizes of the first dimension may differ."""
        with eager_mode():
            rows, counts = self.gather_rows(tf.constant(array), _outside(array[:0], name))
        return np.split(np.asarray(rows), np.cumsum(counts)[:-1])

    def broadcast(self, arrays: Sequence[Array], root: int = 0) -> list[Array]:
        """Return the arrays of the task with rank ``root``. The dtypes must have a fixed size."""
        arrays = [np.asarray(a) for a in arrays]
        data = [_as_bytes(a) for a in arrays]
        # Send whole words: TensorFlow's collectives do not support bytes, and each byte would be sent as a whole word.
        blank = np.zeros(-sum(map(len, data)) % 8, np.uint8)
        sent = np.concatenate([*data, blank]).view(np.int64)
        with eager_mode():
            (words,) = self.broadcast_tensors([tf.constant(sent)], root, _outside(sent))
        received = np.asarray(words).view(np.uint8)
        ends = np.cumsum([a.nbytes for a in arrays])
        return [
            received[end - a.nbytes : end].view(a.dtype).reshape(a.shape) for end, a in zip(ends, arrays, strict=True)
        ]

    def all_gather(self, value: Any, name: str = "allgather of an object") -> list[Any]:
        """Return every task's picklable value, in rank order. ``name`` must be the same in all tasks."""
        sent = np.frombuffer(pickled(value), np.uint8)
        return [pickle.loads(data.tobytes()) for data in self.gather(sent, name)]

    @abstractmethod
    def close(self, failed: bool = False) -> None:
        """Leave the collectives. ``failed`` is whether the other tasks must fail instead of waiting for this one."""

    @property
    def interrupted(self) -> bool:
        """Whether the last collective failed because another task left with a failure. ``renew`` may then help."""
        return False

    def wake(self) -> None:  # noqa: B027
        """Make a wait in a collective check whether it should continue. Called in another thread."""

    def give_up(self, why: str) -> None:  # noqa: B027
        """Make a wait in a collective raise DifferentCalls, if possible. Called in another thread."""

    def join(self) -> int:
        """Contribute zeros to the other tasks' sums until all tasks have joined. Returns the rank of the last one.

        Raises Unavailable if the transport does not support this.
        """
        raise Unavailable(
            "A task can join while the others continue only if all tasks are on the same machine, or every task is "
            "on a different machine"
        )

    def renew(self) -> None:
        """Leave with a failure, and reconnect.

        All tasks must call this. Traced functions keep working.

        Raises Unavailable if the transport does not support this.
        """
        raise Unavailable(
            "TensorFlow's collectives cannot restart in a process in which they have failed. To return to a commit, "
            "tasks on different machines must exchange data over TCP, as tasks without GPUs do"
        )


def pickled(value: Any) -> bytes:
    """Pickle a value, by cloudpickle if it contains something that pickle cannot refer to, such as a lambda.

    Not always by cloudpickle, which sends the code of classes of the program: in the receiver, that is another class.
    """
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        return bytes(cloudpickle.dumps(value))


def check_op(op: str, dtype: tf.DType) -> None:
    """Raise InvalidInput unless the dtype supports the reduction."""
    if op not in OPS:
        raise InvalidInput(f"`op` must be one of {', '.join(OPS)}, got {op!r}", field="op")
    if dtype not in TYPES:
        names = ", ".join(TYPES.values())
        raise InvalidInput(f"`tensor` must be of one of the types {names}, got {dtype.name}", field="tensor")
    if dtype == tf.bool and op == "sum":
        raise InvalidInput('`op` must be "min", "max" or "product" for booleans, got "sum"', field="op")


_SPLITS_RULE = "`splits` must be numbers of rows >= 0 that add up to at most the number of rows"


def check_splits(everyones: Sequence[tuple[int, Array]], tasks: Sequence[str]) -> None:
    """Raise InvalidInput unless every task's splits are valid for its number of rows."""
    for (rows, splits), task in zip(everyones, tasks, strict=True):
        if splits.sum() > rows or (splits < 0).any():
            raise InvalidInput(f"{_SPLITS_RULE}, got {splits.tolist()} for {rows} rows on {task}", field="splits")


def _outside(array: Array, name: str = "outside of a step") -> str:
    return f"{name} {array.dtype.name} {array.shape}"


def _as_bytes(array: Array) -> Array:
    flat: Array = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return flat


_INTEGERS = {1: tf.uint8, 2: tf.int16, 4: tf.int32, 8: tf.int64}  # keyed by size in bytes


def _as_integers(tensor: tf.Tensor) -> tf.Tensor:
    """Reinterpret the bits as integers, so that adding zeros changes nothing, not even the sign of a zero."""
    if tensor.dtype == tf.bool:
        return tf.cast(tensor, tf.uint8)
    return tf.bitcast(tensor, _INTEGERS[tensor.dtype.size])


def _from_integers(tensor: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    return tf.cast(tensor, tf.bool) if dtype == tf.bool else tf.bitcast(tensor, dtype)


class Alone(Reducer):
    """The reducer of a single task, which returns its input."""

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
