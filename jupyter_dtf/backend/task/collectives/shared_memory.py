"""Collectives through memory shared by the tasks of one machine.

Every collective is a sequence of rounds. In a round, each task writes to its own slot, waits for all other tasks at a
barrier, and reads the data that it needs from the others' slots. Each task alternates between two slots: before it
writes to a slot again, it has passed another barrier, by which time the other tasks have read the slot. So the memory
does not grow with the amount of data.

A small reduction takes one round, in which every task reduces all arrays in the same order. A large one is cut into
cells, which are assigned to the tasks in rotation. In each round, every task writes a cell for every other task, and
the reduced cell that it owned in the previous round. The traffic per task equals a few copies of the arrays, regardless
of the number of tasks, and most of it stays in the CPU cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from .array_reducer import ArrayReducer, Bytes, Wanted
from .calls import DifferentCalls, mark
from .deadlocks import HEARD_S, Watch
from .divided_arrays import Cells
from .elementwise import combine_for
from .primitive import Array
from .rendezvous import JOINED, Meeting, mapped
from .results import Results

_SMALL_BYTES = 1 << 16  # up to this size, reducing all tasks' whole arrays is faster than a second barrier
_CELL_BYTES = 1 << 19
_MEMORY_BYTES = 48 << 20  # for all slots; containers often have only 64 MiB of shared memory


class SharedMemoryReducer(ArrayReducer):
    """The reducer for tasks of one machine.

    ``path`` is the prefix of the paths of the memory's files, and is the same in all tasks. ``tasks`` are the names of
    the tasks in rank order; for ``stalled``, ``lookout`` and ``ranks``, see ``Meeting``.
    """

    def __init__(
        self,
        path: Path,
        rank: int,
        tasks: Sequence[str],
        stall_s: float = 60.0,
        stalled: Callable[[list[str], str], None] = lambda missing, what: None,
        *,
        lookout: Watch | None = None,
        ranks: Sequence[int] | None = None,
    ) -> None:
        super().__init__(rank, tasks, stall_s)
        self._path = path
        self._tell: Callable[[str], None] = lambda why: None
        self._meet_by: dict[str, Any] = {"stall_s": stall_s, "stalled": stalled, "lookout": lookout, "ranks": ranks}
        share = _MEMORY_BYTES // (2 * self.size * (self.size + 1))
        self._cell = max(4096, min(_CELL_BYTES, share // 4096 * 4096))
        self._slot = (self.size + 1) * self._cell
        self._results = Results()
        self._starts = 0
        self._start()

    def _start(self) -> None:
        paths = [Path(f"{self._path}-{self._starts}-{what}") for what in ("meeting", "slots")]
        self._starts += 1
        self._meeting = Meeting(paths[0], self.rank, self._tasks, **self._meet_by)
        slots = np.frombuffer(mapped(paths[1], 2 * self.size * self._slot), np.uint8)
        self._slots = slots.reshape(2, self.size, self._slot)
        self._meeting.meet(mark("start"))
        if self.rank == 0:  # all tasks have mapped the memory, so it is freed once all have ended, even by a crash
            for path in paths:
                path.unlink()

    def close(self, failed: bool = False) -> None:
        self._meeting.leave(failed)

    @property
    def interrupted(self) -> bool:
        return self._meeting.interrupted

    def wake(self) -> None:
        self._meeting.wake()

    def renew(self) -> None:
        self._meeting.leave(failed=True)
        with self._lock:
            self._start()

    def on_different(self, tell: Callable[[str], None]) -> None:
        """Make this reducer a part of a reducer for several machines.

        ``tell`` is called when tasks have made different calls, before they raise the error. The caller must call
        ``give_up`` if tasks on other machines have made different calls.
        """
        self._tell = tell
        self._meeting.word_s = 2 * HEARD_S

    def give_up(self, why: str) -> None:
        """Make current and later waits of this reducer raise DifferentCalls."""
        self._meeting.give_up(why)

    def join(self) -> int:
        """Contribute zeros to the other tasks' sums until all tasks have joined. Returns the rank of the last one.

        Raises InvalidInput in all tasks if one of them calls anything other than a sum or average in the meantime.
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
                self.reduce_flat(zeros, op, next(iter(calls.values())))

    def _meet(self, call: bytes, arrays: Sequence[Array] = (), op: str = "") -> bool:
        """Pass the first barrier of a call. Returns whether joined tasks were notified and the call must restart."""
        try:
            joined = self._meeting.meet(call)
        except DifferentCalls as error:
            self._tell(str(error))
            raise
        return self._tell_joined(joined, call, arrays, op)

    def reduce_flat(self, arrays: list[Array], op: str, call: bytes) -> list[Array]:
        reduce = self._reduce_small if sum(a.nbytes for a in arrays) <= _SMALL_BYTES else self._reduce_large
        while True:
            reduced = reduce(arrays, op, call)
            if reduced is not None:
                return reduced

    def _reduce_small(self, arrays: list[Array], op: str, call: bytes) -> list[Array] | None:
        combine = combine_for(op, arrays[0].dtype)
        ends = list(accumulate(a.size for a in arrays))
        dtype = arrays[0].dtype
        slots = self._next_slots()[:, : ends[-1] * dtype.itemsize].view(dtype)
        np.concatenate(arrays, out=slots[self.rank])
        if self._meet(call, arrays, op):
            return None
        total = combine(slots[0], slots[1])
        for slot in slots[2:]:
            combine(total, slot, out=total)
        return [total[end - a.size : end] for end, a in zip(ends, arrays, strict=True)]

    def _reduce_large(self, arrays: list[Array], op: str, call: bytes) -> list[Array] | None:
        combine = combine_for(op, arrays[0].dtype)
        totals = self._results.like(arrays)
        cell = Cells(arrays, self.size, self._cell)
        for number in range(cell.rounds + 1):
            own = self._next_slots()[self.rank]
            if number > 0:  # the cell that this task owned in the previous round
                place = self.size * self._cell
                before = self._slots[(self._meeting.count) % 2]
                for i, lo, hi, offset in cell.pieces(number - 1, self.rank):
                    total = totals[i][lo:hi]
                    mine = arrays[i][lo:hi]
                    for other in self._others:
                        sent = _view(before[other], self.rank * self._cell + offset, mine)
                        combine(mine, sent, out=total)
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

    def exchange(self, sent: Bytes, call: bytes, wanted: Wanted) -> None:
        header = 8
        done, end = 0, self._slot - header  # the number of each task's bytes that have been read, and written
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

    def _next_slots(self) -> Bytes:
        """Return the slots that the tasks write before the next barrier and read after it, in rank order."""
        slots: Bytes = self._slots[(self._meeting.count + 1) % 2]
        return slots


def _view(slot: Bytes, offset: int, like: Array) -> Array:
    return slot[offset : offset + like.nbytes].view(like.dtype)


def _fill(slot: Bytes, data: Bytes) -> None:
    slot[: data.size] = data
