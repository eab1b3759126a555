"""Collectives for several tasks per machine: shared memory within machines, the network between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TypeVar

import msgspec
import numpy as np

from ..context import peer_lost
from .array_reducer import ArrayReducer, Bytes, Wanted, as_bytes
from .calls import DifferentCalls, mark, text_of
from .group_wait import WholeWait
from .primitive import Array
from .shared_memory import SharedMemoryReducer
from .tcp.tcp_reducer import TcpReducer

_OUTCOME = mark("the outcome between the machines")
_TO_ALL = mark("the copy to all tasks of a machine")
_LOST, _INTERRUPTED, _DIFFERENT = b"lost", b"interrupted", b"different"

Result = TypeVar("Result")


class TwoLevelReducer(ArrayReducer):
    """A reducer that combines a reducer for this machine with one between machines.

    Only the first task of each machine uses the network.

    Args:
        rank: This task's rank in the set.
        tasks: The names of the tasks, in rank order.
        places: For each machine, the ranks of its tasks, beginning with its first task.
        local: Creates the reducer of this machine's tasks; None if this task is the only one.
        between: Creates the reducer of the machines' first tasks; None if this task is not one of them.
        wait: Watches the waits of all parts together.
    """

    bucket_bytes = 4 << 20  # sending takes longer than adding, so an early start saves time

    def __init__(
        self,
        rank: int,
        tasks: Sequence[str],
        places: Sequence[Sequence[int]],
        local: Callable[[], SharedMemoryReducer] | None,
        between: Callable[[], TcpReducer] | None,
        *,
        wait: WholeWait,
    ) -> None:
        super().__init__(rank, tasks, wait.stall_s)
        self._places = [list(place) for place in places]
        self._wait = wait
        self._interrupted = False
        self._between: TcpReducer | None = None
        with wait.start():
            self._local = local() if local is not None else None
            self._between = self._led(between)

    def reduce_flat(self, arrays: list[Array], op: str, call: bytes) -> list[Array]:
        with self._wait.collective(text_of(call)):
            reduced = self._here(lambda local: local.reduce_flat(arrays, op, call), arrays)
            totals = self._across(lambda between: between.reduce_flat(reduced, op, call))
            return self._to_all(totals, arrays)

    def exchange(self, sent: Bytes, call: bytes, wanted: Wanted) -> None:
        with self._wait.collective(text_of(call)):
            own = sent.tobytes()
            here = self._here(lambda local: local.gather_bytes(own, call), [own])
            packed = self._across(lambda between: between.gather_bytes(msgspec.msgpack.encode(here), call))
            joined = b"".join(_pack(each) for each in packed or [])
            if self._local is not None:
                joined = self._local.gather_bytes(joined, _TO_ALL)[0]
            everyones = self._by_rank(_unpack(joined))
        targets = wanted([len(each) for each in everyones])
        for data, (start, target) in zip(everyones, targets, strict=True):
            target[:] = np.frombuffer(data, np.uint8)[start : start + target.size]

    def _by_rank(self, machines: Sequence[bytes]) -> list[bytes]:
        found = [b""] * self.size
        for ranks, packed in zip(self._places, machines, strict=True):
            for rank, data in zip(ranks, msgspec.msgpack.decode(packed, type=list[bytes]), strict=True):
                found[rank] = data
        return found

    def _here(self, part: Callable[[SharedMemoryReducer], Result], alone: Result) -> Result:
        """Run the part of a call that takes place within this machine. If it detects different calls, notify the other
        machines.
        """
        if self._local is None:
            return alone
        try:
            return part(self._local)
        except DifferentCalls as error:
            if self._between is not None:
                self._between.tell_different(str(error))
            raise

    def _across(self, part: Callable[[TcpReducer], Result]) -> Result | None:
        """Run the part of a call that takes place between the machines."""
        between = self._between
        return self._led((lambda: part(between)) if between is not None else None)

    def _led(self, part: Callable[[], Result] | None) -> Result | None:
        """Run a part in the first task of each machine, and return None in the other tasks.

        If the part fails in the first task of this machine, all tasks of the machine raise the error.
        """
        result, failed, error = None, b"", None
        if part is not None:
            try:
                result = part()
            except Exception as raised:
                lost = _INTERRUPTED if self._between is not None and self._between.interrupted else _LOST
                kind = _DIFFERENT if isinstance(raised, DifferentCalls) else lost
                failed, error = kind + b" " + str(raised).encode(), raised
        if self._local is not None:
            failed = self._local.gather_bytes(failed, _OUTCOME)[0]
        if error is not None:
            raise error
        if failed:
            kind, _, said = failed.partition(b" ")
            text = said.decode(errors="replace")
            self._interrupted = kind == _INTERRUPTED
            raise DifferentCalls(text) if kind == _DIFFERENT else peer_lost(text)
        return result

    def _to_all(self, totals: list[Array] | None, like: list[Array]) -> list[Array]:
        """Copy the result of this machine's first task to all of its tasks."""
        if self._local is None:
            assert totals is not None
            return totals
        sent = np.concatenate([as_bytes(a) for a in totals]) if totals is not None else np.empty(0, np.uint8)
        received = np.empty(sum(a.nbytes for a in like), np.uint8)
        nothing = (0, received[:0])
        self._local.exchange(sent, _TO_ALL, lambda sizes: [(0, received), *[nothing] * (len(sizes) - 1)])
        ends = list(accumulate(a.nbytes for a in like))
        return [received[end - a.nbytes : end].view(a.dtype) for end, a in zip(ends, like, strict=True)]

    @property
    def interrupted(self) -> bool:
        return self._interrupted or any(part.interrupted for part in self._parts)

    @property
    def _parts(self) -> list[SharedMemoryReducer | TcpReducer]:
        return [part for part in (self._local, self._between) if part is not None]

    def renew(self) -> None:
        self._interrupted = False
        with self._wait.start():
            if self._local is not None:
                self._local.renew()
            self._led(self._between.renew if self._between is not None else None)

    def close(self, failed: bool = False) -> None:
        for part in self._parts:
            part.close(failed)


def _pack(data: bytes) -> bytes:
    return len(data).to_bytes(8, "little") + data


def _unpack(joined: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(joined):
        end = at + 8 + int.from_bytes(joined[at : at + 8], "little")
        found.append(joined[at + 8 : end])
        at = end
    return found
