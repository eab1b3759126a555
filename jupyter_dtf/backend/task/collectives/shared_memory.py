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

import pickle
import threading
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ....errors import InvalidInput
from .base import Array, Reducer, check_op, check_splits
from .calls import DifferentCalls, described, mark, text_of
from .cells import Cells
from .lookout import HEARD_S, Lookout
from .matching import Matching
from .meeting import JOINED, Meeting, mapped
from .order import ProgramOrder, in_graph
from .results import Results

_SMALL_BYTES = 1 << 16  # up to here reducing everyone's whole arrays costs less than a second meeting
_CELL_BYTES = 1 << 19
_MEMORY_BYTES = 48 << 20  # for all slots; containers often have no more than 64 MiB to share

_MANY_CALLS = 1000  # different ones, whose marks are kept

_UFUNCS = {"sum": np.add, "min": np.minimum, "max": np.maximum, "product": np.multiply}

_IN_A_GRAPH = "what comes next in a graph"

_Bytes = npt.NDArray[np.uint8]


class SharedMemoryReducer(Reducer):
    """See the module. ``path``: where all tasks find the memory; the others' files lie beside it.

    ``tasks`` are the names of the tasks, by rank; for ``stalled``, ``lookout`` and ``ranks`` see Meeting.
    """

    keeps_order = True

    def __init__(
        self,
        path: Path,
        rank: int,
        tasks: Sequence[str],
        stall_s: float = 60.0,
        stalled: Callable[[list[str], str], None] = lambda missing, what: None,
        *,
        lookout: Lookout | None = None,
        ranks: Sequence[int] | None = None,
    ) -> None:
        super().__init__(rank, len(tasks))
        self._path = path
        self._tasks = list(tasks)
        self._tell: Callable[[str], None] = lambda why: None
        self._meet_by: dict[str, Any] = {"stall_s": stall_s, "stalled": stalled, "lookout": lookout, "ranks": ranks}
        self._others = [r for r in range(self.size) if r != rank]
        self._lock = threading.RLock()
        share = _MEMORY_BYTES // (2 * self.size * (self.size + 1))
        self._cell = max(4096, min(_CELL_BYTES, share // 4096 * 4096))
        self._slot = (self.size + 1) * self._cell
        self._results = Results()
        self._order = ProgramOrder()
        self._matching = Matching(lambda value: self.all_gather(value, _IN_A_GRAPH), self._tasks, stall_s)
        self._marks: dict[Any, bytes] = {}
        self._starts = 0
        self._start()

    def _start(self) -> None:
        paths = [Path(f"{self._path}-{self._starts}-{what}") for what in ("meeting", "slots")]
        self._starts += 1
        self._meeting = Meeting(paths[0], self.rank, self._tasks, **self._meet_by)
        slots = np.frombuffer(mapped(paths[1], 2 * self.size * self._slot), np.uint8)
        self._slots = slots.reshape(2, self.size, self._slot)
        self._meeting.meet(mark("start"))
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

    def on_different(self, tell: Callable[[str], None]) -> None:
        """This is part of a larger whole: ``tell`` is called when tasks have called different things, before they get
        the error, and where others have, ``give_up``.
        """
        self._tell = tell
        self._meeting.word_s = 2 * HEARD_S

    def give_up(self, why: str) -> None:
        """Whoever waits here, or comes to, gets DifferentCalls."""
        self._meeting.given_up = why

    def _as_op(
        self, function: Callable[..., list[Array]], inputs: Sequence[tf.Tensor], like: Sequence[Any], name: str
    ) -> list[tf.Tensor]:
        """``function`` of the inputs' arrays, at once or as an op, giving what has types and shapes of ``like``."""
        if tf.executing_eagerly():
            return [tf.convert_to_tensor(a) for a in function(*(np.asarray(t) for t in inputs))]
        if in_graph():
            return self._matching.as_op(function, inputs, like, name)
        return self._order(lambda: _op(function, inputs, like))

    def _mark(self, name: str, arrays: Sequence[Array], free_rows: bool = False) -> bytes:
        """What the other tasks have to call as well: of that name, of such arrays."""
        key = (name, free_rows, *[(a.dtype, a.shape[1:] if free_rows else a.shape) for a in arrays])
        found = self._marks.get(key)
        if found is None:
            if len(self._marks) >= _MANY_CALLS:
                self._marks.clear()
            found = mark(described(name, [(a.dtype.name, a.shape) for a in arrays], free_rows))
            self._marks[key] = found
        return found

    # -- tasks that have joined ---------------------------------------------------------------------------------

    def join(self) -> int:
        """Take part with zeros in the others' sums until all tasks have come here; the rank that came last.

        Raises InvalidInput on all tasks when one calls anything else than a sum or an average meanwhile.
        """
        since = self._meeting.count
        while True:
            with self._lock:
                self._meeting.meet(JOINED)
                calls = {rank: call for rank, call in enumerate(self._meeting.calls()) if call != JOINED}
            if not calls:
                came = self.all_gather((since, self.rank))
                return int(max(came)[1])
            dtype, op, lengths = self._told(None, [r for r in range(self.size) if r not in calls])
            zeros = [np.zeros(length, dtype) for length in lengths]
            with self._lock:
                self._reduce(zeros, op, next(iter(calls.values())))

    def _told(self, what: Any, joined: Sequence[int]) -> Any:
        """Those that have not joined say what they reduce; everyone gets it."""
        everyones = self._gather_bytes(pickle.dumps(what), mark("what is reduced"))
        told = next(pickle.loads(data) for rank, data in enumerate(everyones) if rank not in joined)
        if not isinstance(told, tuple):
            names = " and ".join(self._tasks[rank] for rank in joined)
            raise InvalidInput(f"While {names} has joined, the others can only sum and average. Received: {told}")
        return told

    def _meet(self, call: bytes, arrays: Sequence[Array] = (), op: str = "") -> bool:
        """Meet for the first time in a call. Whether to begin anew, now that tasks that have joined know what it is."""
        try:
            joined = self._meeting.meet(call)
        except DifferentCalls as error:
            self._tell(str(error))
            raise
        if joined:
            summed = (arrays[0].dtype, op, [a.size for a in arrays]) if op == "sum" else text_of(call)
            self._told(summed, joined)
        return bool(joined)

    # -- reductions ---------------------------------------------------------------------------------------------

    def reduce(self, array: Array, op: str = "sum") -> Array:
        return self.reduce_arrays([array], op)[0]

    def reduce_arrays(self, arrays: Sequence[Array], op: str, name: str = "") -> list[Array]:
        """Each array's reduction over the tasks, in one exchange per type."""
        results: list[Any] = [None] * len(arrays)
        groups: dict[np.dtype[Any], list[int]] = {}
        for index, array in enumerate(arrays):
            groups.setdefault(array.dtype, []).append(index)
        call = self._mark(name or op, arrays)
        with self._lock:
            for dtype, indices in groups.items():
                check_op(op, tf.as_dtype(dtype))
                flat = [np.ascontiguousarray(arrays[i]).reshape(-1) for i in indices]
                for index, reduced in zip(indices, self._reduce(flat, op, call), strict=True):
                    results[index] = reduced.reshape(arrays[index].shape)
        return results

    def _reduce(self, flat: list[Array], op: str, call: bytes) -> list[Array]:
        reduce = self._reduce_small if sum(a.nbytes for a in flat) <= _SMALL_BYTES else self._reduce_large
        while True:
            reduced = reduce(flat, op, call)
            if reduced is not None:
                return reduced

    def reduce_tensors(self, tensors: Sequence[tf.Tensor], op: str, name: str) -> list[tf.Tensor]:
        for tensor in tensors:
            check_op(op, tensor.dtype)
        return self._as_op(lambda *arrays: self.reduce_arrays(arrays, op, name), tensors, tensors, name)

    def _reduce_small(self, arrays: list[Array], op: str, call: bytes) -> list[Array] | None:
        ufunc = _UFUNCS[op]
        ends = list(accumulate(a.size for a in arrays))
        dtype = arrays[0].dtype
        slots = self._next_slots()[:, : ends[-1] * dtype.itemsize].view(dtype)
        np.concatenate(arrays, out=slots[self.rank])
        if self._meet(call, arrays, op):
            return None
        total = ufunc(slots[0], slots[1])
        for slot in slots[2:]:
            ufunc(total, slot, out=total)
        return [total[end - a.size : end] for end, a in zip(ends, arrays, strict=True)]

    def _reduce_large(self, arrays: list[Array], op: str, call: bytes) -> list[Array] | None:
        ufunc = _UFUNCS[op]
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
            if number == 0:
                if self._meet(call, arrays, op):
                    return None
            else:
                self._meeting.meet()
            if number > 0:
                now = self._slots[self._meeting.count % 2]
                for owner in self._others:
                    for i, lo, hi, offset in cell.pieces(number - 1, owner):
                        total = totals[i][lo:hi]
                        total[...] = _view(now[owner], self.size * self._cell + offset, total)
        return totals

    # -- exchanges of any length --------------------------------------------------------------------------------

    def gather(self, array: Array, name: str = "allgather") -> list[Array]:
        array = np.ascontiguousarray(array)
        call = self._mark(name, [array], free_rows=True)
        row = int(np.prod(array.shape[1:])) * array.itemsize
        if row == 0:  # nothing to send, but so many of it
            lengths = [
                int.from_bytes(data, "little") for data in self._gather_bytes(len(array).to_bytes(8, "little"), call)
            ]
            return [np.empty((length, *array.shape[1:]), array.dtype) for length in lengths]
        gathered: list[Array] = []

        def wanted(sizes: list[int]) -> list[tuple[int, _Bytes]]:
            for nbytes in sizes:
                shape = (nbytes // row, *array.shape[1:])
                gathered.append(np.empty(shape, array.dtype))
            return [(0, _bytes(a)) for a in gathered]

        self._exchange(_bytes(array), call, wanted)
        return gathered

    def all_gather(self, value: Any, name: str = "allgather of an object") -> list[Any]:
        return [pickle.loads(data) for data in self._gather_bytes(pickle.dumps(value), mark(name))]

    def _gather_bytes(self, sent: bytes, call: bytes) -> list[bytes]:
        gathered: list[_Bytes] = []

        def wanted(sizes: list[int]) -> list[tuple[int, _Bytes]]:
            gathered.extend(np.empty(size, np.uint8) for size in sizes)
            return [(0, a) for a in gathered]

        self._exchange(np.frombuffer(sent, np.uint8), call, wanted)
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
        blobs = [_bytes(a) for a in arrays]
        sent = np.concatenate(blobs or [np.zeros(0, np.uint8)]) if self.rank == root else np.zeros(0, np.uint8)
        received = np.empty(sum(b.size for b in blobs), np.uint8)
        nothing = (0, received[:0])

        def wanted(sizes: list[int]) -> list[tuple[int, _Bytes]]:
            return [(0, received) if rank == root else nothing for rank in range(self.size)]

        self._exchange(sent, self._mark(f"{name} from {root}", arrays), wanted)
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
            rows_and_splits = [np.frombuffer(data, np.int64) for data in self._gather_bytes(sent, call)]
            check_splits([(int(each[0]), each[1:]) for each in rows_and_splits], self._tasks)
            everyones = np.stack([each[1:] for each in rows_and_splits])
            rows = everyones[:, self.rank]
            received = np.empty((int(rows.sum()), *array.shape[1:]), array.dtype)
            row = int(np.prod(array.shape[1:])) * array.itemsize
            starts = everyones[:, : self.rank].sum(1) * row
            parts = np.split(_bytes(received), np.cumsum(rows)[:-1] * row)
            self._exchange(_bytes(array), call, lambda sizes: list(zip(starts.tolist(), parts, strict=True)))
            return [received, rows]

        some_rows = tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype)
        counts = tf.TensorSpec([self.size], tf.int64)
        received, rows = self._as_op(function, [tensor, splits], [some_rows, counts], name)
        return received, rows

    def _exchange(self, sent: _Bytes, call: bytes, wanted: Callable[[list[int]], list[tuple[int, _Bytes]]]) -> None:
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
            self._meet(call)
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
