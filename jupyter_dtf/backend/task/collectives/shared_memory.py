"""Collectives through memory that the tasks of one machine share.

Everything is a sequence of rounds. In a round each task writes into a slot of its own, all meet, and each reads what it
wants of the others' slots. A task has two slots, which take turns: whoever writes into one again has met everyone after
they had read it. So the memory needed does not grow with what is sent.

A small reduction is one round: everyone reduces everyone's arrays in the same order. A large one is cut into cells,
which the tasks own in turn. In each round everyone writes a cell for every other task, and the reduced cell that it
owned in the round before. The traffic per task is that of a few copies of the arrays, whatever the number of tasks,
and most of it stays in the processor's cache.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from .base import Array, Reducer, check_op
from .cells import Cells
from .meeting import Meeting, mapped
from .order import ProgramOrder
from .results import Results

_SMALL_BYTES = 1 << 16  # up to here reducing everyone's whole arrays costs less than a second meeting
_CELL_BYTES = 1 << 19
_MEMORY_BYTES = 48 << 20  # for all slots; containers often have no more than 64 MiB to share

_UFUNCS = {"sum": np.add, "min": np.minimum, "max": np.maximum, "product": np.multiply}

_Bytes = npt.NDArray[np.uint8]


class SharedMemoryReducer(Reducer):
    """See the module. ``path``: where all tasks find the memory; the others' files lie beside it.

    ``tasks`` are the names of the tasks, by rank; for ``stalled`` see Meeting.
    """

    keeps_order = True

    def __init__(
        self,
        path: Path,
        rank: int,
        tasks: Sequence[str],
        stall_s: float = 60.0,
        stalled: Callable[[list[str], str], None] = lambda missing, what: None,
    ) -> None:
        super().__init__(rank, len(tasks))
        self._path = path
        self._tasks = list(tasks)
        self._stall = (stall_s, stalled)
        self._others = [r for r in range(self.size) if r != rank]
        self._lock = threading.Lock()
        share = _MEMORY_BYTES // (2 * self.size * (self.size + 1))
        self._cell = max(4096, min(_CELL_BYTES, share // 4096 * 4096))
        self._slot = (self.size + 1) * self._cell
        self._results = Results()
        self._order = ProgramOrder()
        self._starts = 0
        self._start()

    def _start(self) -> None:
        paths = [Path(f"{self._path}-{self._starts}-{what}") for what in ("meeting", "slots")]
        self._starts += 1
        self._meeting = Meeting(paths[0], self.rank, self._tasks, *self._stall)
        slots = np.frombuffer(mapped(paths[1], 2 * self.size * self._slot), np.uint8)
        self._slots = slots.reshape(2, self.size, self._slot)
        self._meeting.meet("start")
        if self.rank == 0:  # everyone holds the memory now: nothing is left of it when all have gone, however they go
            for path in paths:
                path.unlink()

    def close(self, failed: bool = False) -> None:
        self._meeting.leave(failed)

    @property
    def interrupted(self) -> bool:
        return self._meeting.interrupted

    def renew(self) -> None:
        self._meeting.leave(failed=True)
        with self._lock:
            self._start()

    def _as_op(
        self, function: Callable[..., list[Array]], inputs: Sequence[tf.Tensor], like: Sequence[Any]
    ) -> list[tf.Tensor]:
        """``function`` of the inputs' arrays, at once or as an op, giving what has types and shapes of ``like``."""
        if tf.executing_eagerly():
            return [tf.convert_to_tensor(a) for a in function(*(np.asarray(t) for t in inputs))]
        return self._order(lambda: _op(function, inputs, like))

    # -- reductions ---------------------------------------------------------------------------------------------

    def reduce(self, array: Array, op: str = "sum") -> Array:
        return self.reduce_arrays([array], op)[0]

    def reduce_arrays(self, arrays: Sequence[Array], op: str) -> list[Array]:
        """Each array's reduction over the tasks, in one exchange per type."""
        results: list[Any] = [None] * len(arrays)
        groups: dict[np.dtype[Any], list[int]] = {}
        for index, array in enumerate(arrays):
            groups.setdefault(array.dtype, []).append(index)
        with self._lock:
            for dtype, indices in groups.items():
                check_op(op, tf.as_dtype(dtype))
                flat = [np.ascontiguousarray(arrays[i]).reshape(-1) for i in indices]
                nbytes = sum(a.nbytes for a in flat)
                what = f"{op} of {dtype.name} {_sizes(flat)}"
                reduce = self._reduce_small if nbytes <= _SMALL_BYTES else self._reduce_large
                for index, reduced in zip(indices, reduce(flat, _UFUNCS[op], what), strict=True):
                    results[index] = reduced.reshape(arrays[index].shape)
        return results

    def reduce_tensors(self, tensors: Sequence[tf.Tensor], op: str, name: str) -> list[tf.Tensor]:
        for tensor in tensors:
            check_op(op, tensor.dtype)
        return self._as_op(lambda *arrays: self.reduce_arrays(arrays, op), tensors, tensors)

    def _reduce_small(self, arrays: list[Array], ufunc: np.ufunc, what: str) -> list[Array]:
        ends = list(accumulate(a.size for a in arrays))
        dtype = arrays[0].dtype
        slots = self._next_slots()[:, : ends[-1] * dtype.itemsize].view(dtype)
        np.concatenate(arrays, out=slots[self.rank])
        self._meeting.meet(what)
        total = ufunc(slots[0], slots[1])
        for slot in slots[2:]:
            ufunc(total, slot, out=total)
        return [total[end - a.size : end] for end, a in zip(ends, arrays, strict=True)]

    def _reduce_large(self, arrays: list[Array], ufunc: np.ufunc, what: str) -> list[Array]:
        totals = self._results.like(arrays)
        cell = Cells(arrays, self.size, self._cell)
        for number in range(cell.rounds + 1):
            own = self._next_slots()[self.rank]
            if number > 0:  # the cell that this task owns of the round before
                place = self.size * self._cell
                before = self._slots[(self._meeting.count) % 2]
                for i, lo, hi, offset in cell.pieces(number - 1, self.rank):
                    total = totals[i][lo:hi]
                    mine = arrays[i][lo:hi]
                    for other in self._others:
                        sent = _view(before[other], self.rank * self._cell + offset, mine)
                        ufunc(mine, sent, out=total)
                        mine = total
                    _view(own, place + offset, total)[...] = total
            if number < cell.rounds:
                for owner in self._others:
                    for i, lo, hi, offset in cell.pieces(number, owner):
                        mine = arrays[i][lo:hi]
                        _view(own, owner * self._cell + offset, mine)[...] = mine
            self._meeting.meet(what if number == 0 else "")
            if number > 0:
                now = self._slots[self._meeting.count % 2]
                for owner in self._others:
                    for i, lo, hi, offset in cell.pieces(number - 1, owner):
                        total = totals[i][lo:hi]
                        total[...] = _view(now[owner], self.size * self._cell + offset, total)
        return totals

    # -- exchanges of any length --------------------------------------------------------------------------------

    def gather(self, array: Array) -> list[Array]:
        array = np.ascontiguousarray(array)
        row = array[:1].nbytes if len(array) else int(np.prod(array.shape[1:])) * array.itemsize
        gathered: list[Array] = []

        def wanted(sizes: list[int]) -> list[tuple[int, _Bytes]]:
            for nbytes in sizes:
                shape = (nbytes // row if row else 0, *array.shape[1:])
                gathered.append(np.empty(shape, array.dtype))
            return [(0, _bytes(a)) for a in gathered]

        self._exchange(_bytes(array), f"gather of {array.dtype.name} (*, {str(array.shape[1:])[1:]}", wanted)
        return gathered

    def gather_rows(self, tensor: tf.Tensor, name: str) -> tuple[tf.Tensor, tf.Tensor]:
        def function(array: Array) -> list[Array]:
            parts = self.gather(array)
            return [np.concatenate(parts), np.array([len(p) for p in parts], np.int64)]

        some_rows = tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype)
        rows, counts = self._as_op(function, [tensor], [some_rows, tf.TensorSpec([self.size], tf.int64)])
        return rows, counts

    def broadcast(self, arrays: Sequence[Array], root: int = 0) -> list[Array]:
        arrays = [np.ascontiguousarray(a).reshape(np.shape(a)) for a in arrays]
        blobs = [_bytes(a) for a in arrays]
        sent = np.concatenate(blobs or [np.zeros(0, np.uint8)]) if self.rank == root else np.zeros(0, np.uint8)
        received = np.empty(sum(b.size for b in blobs), np.uint8)
        nothing = (0, received[:0])

        def wanted(sizes: list[int]) -> list[tuple[int, _Bytes]]:
            return [(0, received) if rank == root else nothing for rank in range(self.size)]

        self._exchange(sent, f"broadcast from {root} of {len(arrays)} arrays, {received.size} bytes", wanted)
        ends = list(accumulate(b.size for b in blobs))
        return [
            received[end - a.nbytes : end].copy().view(a.dtype).reshape(a.shape)
            for end, a in zip(ends, arrays, strict=True)
        ]

    def broadcast_tensors(self, tensors: Sequence[tf.Tensor], root: int, name: str) -> list[tf.Tensor]:
        return self._as_op(lambda *arrays: self.broadcast(arrays, root), tensors, tensors)

    def exchange_rows(self, tensor: tf.Tensor, splits: tf.Tensor, name: str) -> tuple[tf.Tensor, tf.Tensor]:
        def function(array: Array, splits: Array) -> list[Array]:
            everyones = np.stack(self.gather(splits))
            array = np.ascontiguousarray(array)
            rows = everyones[:, self.rank]
            received = np.empty((int(rows.sum()), *array.shape[1:]), array.dtype)
            row = int(np.prod(array.shape[1:])) * array.itemsize
            starts = everyones[:, : self.rank].sum(1) * row
            parts = np.split(_bytes(received), np.cumsum(rows)[:-1] * row)
            what = f"alltoall of {array.dtype.name} (*, {str(array.shape[1:])[1:]}"
            self._exchange(_bytes(array), what, lambda sizes: list(zip(starts.tolist(), parts, strict=True)))
            return [received, rows]

        some_rows = tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype)
        received, rows = self._as_op(function, [tensor, splits], [some_rows, tf.TensorSpec([self.size], tf.int64)])
        return received, rows

    def _exchange(self, sent: _Bytes, what: str, wanted: Callable[[list[int]], list[tuple[int, _Bytes]]]) -> None:
        """Everyone sends bytes, as many as each likes.

        ``wanted`` is told how many everyone sends, and says for each rank from where on they shall be copied, and to
        where.
        """
        header = 8
        with self._lock:
            done, end = 0, self._slot - header  # of everyone's bytes, those that have been read, and been written
            slots = self._next_slots()
            slots[self.rank, :header].view(np.int64)[0] = sent.size
            _fill(slots[self.rank, header:], sent[:end])
            self._meeting.meet(what)
            sizes = [int(slot[:header].view(np.int64)[0]) for slot in slots]
            targets = wanted(sizes)
            while True:
                for slot, size, (start, target) in zip(slots, sizes, targets, strict=True):
                    lo, hi = max(start, done), min(start + target.size, end, size)
                    if lo < hi:
                        at = header + lo - done
                        target[lo - start : hi - start] = slot[at : at + hi - lo]
                if end >= max(sizes):
                    return
                done, end, header = end, end + self._slot, 0
                slots = self._next_slots()
                _fill(slots[self.rank], sent[done:end])
                self._meeting.meet()

    def _next_slots(self) -> _Bytes:
        """Everyone's slots in the round that the next meeting divides into writing and reading."""
        slots: _Bytes = self._slots[(self._meeting.count + 1) % 2]
        return slots


def _op(function: Callable[..., list[Array]], inputs: Sequence[tf.Tensor], like: Sequence[Any]) -> list[tf.Tensor]:
    outputs = tf.numpy_function(function, list(inputs), [t.dtype for t in like])
    for output, spec in zip(outputs, like, strict=True):
        output.set_shape(spec.shape)
    return list(outputs)


def _view(slot: _Bytes, offset: int, like: Array) -> Array:
    return slot[offset : offset + like.nbytes].view(like.dtype)


def _bytes(array: Array) -> _Bytes:
    return array.reshape(-1).view(np.uint8)


def _fill(slot: _Bytes, data: _Bytes) -> None:
    slot[: data.size] = data


def _sizes(arrays: Sequence[Array]) -> str:
    if len(arrays) == 1:
        return f"({arrays[0].size})"
    return f"({len(arrays)} arrays, {sum(a.size for a in arrays)})"
