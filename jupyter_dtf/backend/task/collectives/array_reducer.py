"""Collectives implemented in Python on NumPy arrays. TensorFlow graphs call them as Python functions.

A transport implements two operations: reducing arrays, and exchanging bytes of any length. In both, the tasks first
wait for each other and compare their calls. If the calls differ, all tasks raise an error, after which they can
continue.
"""

from __future__ import annotations

import pickle
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ....errors import InvalidInput
from .. import time_accounts
from .calls import described, mark, text_of
from .matching import Matching
from .primitive import Array, Reducer, check_op, check_splits, pickled
from .program_order import ProgramOrder, in_graph

_MANY_CALLS = 1000  # the number of different calls whose marks are cached

_IN_A_GRAPH = "the choice of the next collective in a graph"

Bytes = npt.NDArray[np.uint8]

Wanted = Callable[[list[int]], list[tuple[int, Bytes]]]
"""Called with the number of bytes that each task sends. Returns, for each rank, an offset into the data that it sends,
and the array to fill with the data from there on.
"""


class ArrayReducer(Reducer):
    """Base class of reducers in Python.

    ``tasks`` are the names of the tasks in rank order. A wait is reported after ``stall_s`` seconds.
    """

    keeps_order = True
    is_timed = True

    def __init__(self, rank: int, tasks: Sequence[str], stall_s: float) -> None:
        super().__init__(rank, len(tasks))
        self._tasks = list(tasks)
        self._others = [r for r in range(self.size) if r != rank]
        self._lock = threading.RLock()
        self._order = ProgramOrder()
        self._matching = Matching(lambda value: self.all_gather(value, _IN_A_GRAPH), self._tasks, stall_s)
        self._marks: dict[Any, bytes] = {}

    # -- implemented by transports; ``call`` is the mark of the call, which is the same in all tasks ------------

    @abstractmethod
    def reduce_flat(self, arrays: list[Array], op: str, call: bytes) -> list[Array]:
        """Reduce one-dimensional arrays of one dtype. Raises DifferentCalls in all tasks if their calls differ, and
        RuntimeError if the call fails for another reason.
        """

    @abstractmethod
    def exchange(self, sent: Bytes, call: bytes, wanted: Wanted) -> None:
        """Send ``sent``, of any length, and receive the parts of the other tasks' data that ``wanted`` chooses. Raises
        DifferentCalls in all tasks if their calls differ, and RuntimeError if the call fails for another reason.
        """

    # -- graphs -------------------------------------------------------------------------------------------------

    def _as_op(
        self, function: Callable[..., list[Array]], inputs: Sequence[tf.Tensor], like: Sequence[Any], name: str
    ) -> list[tf.Tensor]:
        """Apply ``function`` to the inputs as arrays, eagerly or as an op. Outputs have the dtypes and shapes of
        ``like``.
        """
        if tf.executing_eagerly():
            return [tf.convert_to_tensor(a) for a in function(*(np.asarray(t) for t in inputs))]
        if in_graph():
            return self._matching.as_op(function, inputs, like, name)
        return self._order(lambda: _op(function, inputs, like))

    def _mark(self, name: str, arrays: Sequence[Array], free_rows: bool = False) -> bytes:
        """Return the mark of a call, from its name and the dtypes and shapes of its arrays.

        These must be the same in all tasks, except that the numbers of rows may differ if ``free_rows`` is True.
        """
        key = (name, free_rows, *[(a.dtype, a.shape[1:] if free_rows else a.shape) for a in arrays])
        found = self._marks.get(key)
        if found is None:
            if len(self._marks) >= _MANY_CALLS:
                self._marks.clear()
            found = mark(described(name, [(a.dtype.name, a.shape) for a in arrays], free_rows))
            self._marks[key] = found
        return found

    # -- joined tasks -------------------------------------------------------------------------------------------

    def _tell_joined(self, joined: Sequence[int], call: bytes, arrays: Sequence[Array], op: str) -> bool:
        """Notify joined tasks of the other tasks' call. Returns whether any task has joined; if so, the call must
        restart.
        """
        if joined:
            summed = (arrays[0].dtype, op, [a.size for a in arrays]) if op == "sum" else text_of(call)
            self._told(summed, joined)
        return bool(joined)

    def _told(self, what: Any, joined: Sequence[int]) -> Any:
        """Return the description of the reduction, as sent by the tasks that have not joined."""
        everyones = self.gather_bytes(pickle.dumps(what), mark("the description of a reduction"))
        told = next(pickle.loads(data) for rank, data in enumerate(everyones) if rank not in joined)
        if not isinstance(told, tuple):
            names = " and ".join(self._tasks[rank] for rank in joined)
            raise InvalidInput(f"After {names} joined, other tasks must only sum or average, got {told}")
        return told

    # -- reductions ---------------------------------------------------------------------------------------------

    def reduce(self, array: Array, op: str = "sum") -> Array:
        return self.reduce_arrays([array], op)[0]

    def reduce_arrays(self, arrays: Sequence[Array], op: str, name: str = "") -> list[Array]:
        """Reduce each array over the tasks, in one exchange per dtype."""
        results: list[Any] = [None] * len(arrays)
        groups: dict[np.dtype[Any], list[int]] = {}
        for index, array in enumerate(arrays):
            groups.setdefault(array.dtype, []).append(index)
        call = self._mark(name or op, arrays)
        with self._lock, time_accounts.exchanging:
            for dtype, indices in groups.items():
                check_op(op, tf.as_dtype(dtype))
                flat = [np.ascontiguousarray(arrays[i]).reshape(-1) for i in indices]
                for index, reduced in zip(indices, self.reduce_flat(flat, op, call), strict=True):
                    results[index] = reduced.reshape(arrays[index].shape)
        return results

    def reduce_tensors(self, tensors: Sequence[tf.Tensor], op: str, name: str) -> list[tf.Tensor]:
        for tensor in tensors:
            check_op(op, tensor.dtype)
        return self._as_op(lambda *arrays: self.reduce_arrays(arrays, op, name), tensors, tensors, name)

    # -- exchanges of any length --------------------------------------------------------------------------------

    def gather(self, array: Array, name: str = "allgather") -> list[Array]:
        array = np.ascontiguousarray(array)
        call = self._mark(name, [array], free_rows=True)
        row = int(np.prod(array.shape[1:])) * array.itemsize
        if row == 0:  # only the number of (empty) rows matters
            lengths = [
                int.from_bytes(data, "little") for data in self.gather_bytes(len(array).to_bytes(8, "little"), call)
            ]
            return [np.empty((length, *array.shape[1:]), array.dtype) for length in lengths]
        gathered: list[Array] = []

        def wanted(sizes: list[int]) -> list[tuple[int, Bytes]]:
            for nbytes in sizes:
                shape = (nbytes // row, *array.shape[1:])
                gathered.append(np.empty(shape, array.dtype))
            return [(0, as_bytes(a)) for a in gathered]

        with self._lock, time_accounts.exchanging:
            self.exchange(as_bytes(array), call, wanted)
        return gathered

    def all_gather(self, value: Any, name: str = "allgather of an object") -> list[Any]:
        return [pickle.loads(data) for data in self.gather_bytes(pickled(value), mark(name))]

    def gather_bytes(self, sent: bytes, call: bytes) -> list[bytes]:
        """Return the bytes of all tasks, in rank order."""
        gathered: list[Bytes] = []

        def wanted(sizes: list[int]) -> list[tuple[int, Bytes]]:
            gathered.extend(np.empty(size, np.uint8) for size in sizes)
            return [(0, a) for a in gathered]

        with self._lock, time_accounts.exchanging:
            self.exchange(np.frombuffer(sent, np.uint8), call, wanted)
        return [a.tobytes() for a in gathered]

    def gather_rows(self, tensor: tf.Tensor, name: str) -> tuple[tf.Tensor, tf.Tensor]:
        def function(array: Array) -> list[Array]:
            parts = self.gather(array, name)
            return [np.concatenate(parts), np.array([len(p) for p in parts], np.int64)]

        some_rows = tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype)
        rows, counts = self._as_op(function, [tensor], [some_rows, tf.TensorSpec([self.size], tf.int64)], name)
        return rows, counts

    def broadcast(self, arrays: Sequence[Array], root: int = 0, name: str = "broadcast") -> list[Array]:
        arrays = [np.ascontiguousarray(a).reshape(np.shape(a)) for a in arrays]
        blobs = [as_bytes(a) for a in arrays]
        sent = np.concatenate(blobs or [np.zeros(0, np.uint8)]) if self.rank == root else np.zeros(0, np.uint8)
        received = np.empty(sum(b.size for b in blobs), np.uint8)
        nothing = (0, received[:0])

        def wanted(sizes: list[int]) -> list[tuple[int, Bytes]]:
            return [(0, received) if rank == root else nothing for rank in range(self.size)]

        with self._lock, time_accounts.exchanging:
            self.exchange(sent, self._mark(f"{name} from {root}", arrays), wanted)
        ends = list(accumulate(b.size for b in blobs))
        return [
            received[end - a.nbytes : end].copy().view(a.dtype).reshape(a.shape)
            for end, a in zip(ends, arrays, strict=True)
        ]

    def broadcast_tensors(self, tensors: Sequence[tf.Tensor], root: int, name: str) -> list[tf.Tensor]:
        return self._as_op(lambda *arrays: self.broadcast(arrays, root, name), tensors, tensors, name)

    def exchange_rows(self, tensor: tf.Tensor, splits: tf.Tensor, name: str) -> tuple[tf.Tensor, tf.Tensor]:
        def function(array: Array, splits: Array) -> list[Array]:
            array = np.ascontiguousarray(array)
            call = self._mark(name, [array], free_rows=True)
            sent = np.array([len(array), *splits]).tobytes()
            rows_and_splits = [np.frombuffer(data, np.int64) for data in self.gather_bytes(sent, call)]
            check_splits([(int(each[0]), each[1:]) for each in rows_and_splits], self._tasks)
            everyones = np.stack([each[1:] for each in rows_and_splits])
            rows = everyones[:, self.rank]
            received = np.empty((int(rows.sum()), *array.shape[1:]), array.dtype)
            row = int(np.prod(array.shape[1:])) * array.itemsize
            starts = everyones[:, : self.rank].sum(1) * row
            parts = np.split(as_bytes(received), np.cumsum(rows)[:-1] * row)
            with self._lock, time_accounts.exchanging:
                self.exchange(as_bytes(array), call, lambda sizes: list(zip(starts.tolist(), parts, strict=True)))
            return [received, rows]

        some_rows = tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype)
        counts = tf.TensorSpec([self.size], tf.int64)
        received, rows = self._as_op(function, [tensor, splits], [some_rows, counts], name)
        return received, rows


def _op(function: Callable[..., list[Array]], inputs: Sequence[tf.Tensor], like: Sequence[Any]) -> list[tf.Tensor]:
    outputs = tf.numpy_function(function, list(inputs), [t.dtype for t in like])
    for output, spec in zip(outputs, like, strict=True):
        output.set_shape(spec.shape)
    return list(outputs)


def as_bytes(array: Array) -> Bytes:
    """Return the array's memory as bytes."""
    return array.reshape(-1).view(np.uint8)
