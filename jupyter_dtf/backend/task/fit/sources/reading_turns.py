"""Divides the reading of a source among the tasks on a machine, which take turns, and handles tasks that leave.

A task leaves a range of batches (a ``stretch``) when its iteration over the range is stopped before the end, and all
ranges when its program ends. The other tasks then do not wait for that task: to get its own share, each of them reads
the batches that the task would have read.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import tensorflow as tf

from .base import Share
from .shared_reading import Ended, Exchange, Left


class Reads(Protocol):
    """A function that reads batches."""

    def __call__(self, numbers: Iterable[int], *, instead_of: int | None = None) -> Any:
        """Return an iterable of the global batches with these numbers, in order. It has a method ``stop``.

        ``instead_of``: the rank that would otherwise have read these batches.
        """


class Turns:
    """One range of a source's batches, numbered from 0, which the exchange's members read in turn.

    ``bound``: the largest number of shares that may wait in memory for each of the other tasks.
    """

    def __init__(
        self, exchange: Exchange, share: Share, name: str, *, count: int | None, read: Reads, bound: int
    ) -> None:
        self._exchange = exchange
        self._share = share
        self._name = name
        self._count = count
        self._bound = max(1, bound)
        self._stop = threading.Event()
        self._is_left = True
        """Whether this task leaves the range of batches unfinished if it stops now."""
        self._reads = read
        self._instead: dict[int, tuple[Any, Iterator[Any]]] = {}
        """The readers that replace ranks that have left, keyed by rank."""
        self._read = read(self._numbers_from(exchange.place))
        self._numbers = self._numbers_from(exchange.place)  # a separate iterator, because the reader reads ahead
        self._own: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(self._bound)
        self._thread = threading.Thread(target=self._send, name="dtf-batches", daemon=True)
        if len(exchange.members) > 1:
            self._thread.start()

    def _numbers_from(self, number: int) -> Iterable[int]:
        """Return ``number`` and the numbers of the later batches that the same member reads."""
        together = len(self._exchange.members)
        return itertools.count(number, together) if self._count is None else range(number, self._count, together)

    def __iter__(self) -> Iterator[Any]:
        """Yield this task's shares. Raises any error that occurs while reading, and RuntimeError if another task is
        lost.
        """
        try:
            yield from self._shares()
        except Exception:
            self._is_left = False  # the run ends or restarts because of the error
            raise

    def _shares(self) -> Iterator[Any]:
        members = self._exchange.members
        if len(members) == 1:
            for batch in self._read:
                yield part(batch, self._share)
            return
        for number in itertools.count() if self._count is None else range(self._count):
            place = number % len(members)
            share = self._next_own() if place == self._exchange.place else self._from(members[place], number)
            self._is_left = number + 1 != self._count  # after the last batch, no task requests another batch
            yield share

    def stop(self) -> None:
        """Stop reading, and wait until all threads and processes have stopped."""
        self._stop.set()
        self._read.stop()
        for reading, _ in self._instead.values():
            reading.stop()
        if self._thread.ident is not None:
            if self._is_left:
                self._exchange.leave(self._name)
            self._thread.join()

    # -- internals ----------------------------------------------------------------------------------------------

    def _from(self, rank: int, number: int) -> Any:
        """Return this task's share of a batch that another task is due to read."""
        if rank not in self._instead:
            try:
                return self._exchange.take(f"{self._name}-{number}", self._stop.is_set, rank, self._name)
            except Left:
                reading = self._reads(self._numbers_from(number), instead_of=rank)
                self._instead[rank] = reading, iter(reading)
        for batch in self._instead[rank][1]:
            return part(batch, self._share)
        raise Ended

    def _next_own(self) -> Any:
        while True:
            try:
                value, error = self._own.get(timeout=0.05)
            except queue.Empty:
                if self._stop.is_set():
                    raise Ended from None
                self._exchange.check()
                continue
            if error is not None:
                raise error
            return value

    def _send(self) -> None:
        waiting: dict[int, deque[Path]] = {rank: deque() for rank in self._exchange.others}
        try:
            for number, batch in zip(self._numbers, self._read, strict=False):
                for rank in waiting:
                    self._hand(rank, f"{self._name}-{number}", part(batch, Share(rank, self._share.size)), waiting)
                self._keep((part(batch, self._share), None))
        except BaseException as error:
            with contextlib.suppress(Ended):
                self._keep((None, error))
        finally:
            self._read.stop()

    def _hand(self, rank: int, name: str, share: Any, waiting: dict[int, deque[Path]]) -> None:
        """Hand a share to another task unless that task has left. First wait while too many earlier shares for that
        task have not been taken.
        """
        files = waiting[rank]

        def has_room() -> bool:
            _forget(files, self._has_left(rank))
            return len(files) < self._bound

        def nothing_waits() -> bool:
            for each, theirs in waiting.items():
                _forget(theirs, self._has_left(each))
            return not any(waiting.values())

        if not has_room():
            self._exchange.wait(has_room, self._stop.is_set)
        if self._has_left(rank):
            return
        files.append(self._exchange.put(name, rank, share, self._stop.is_set, nothing_waits))
        _forget(files, self._has_left(rank))

    def _has_left(self, rank: int) -> bool:
        return self._exchange.has_left(rank, self._name)

    def _keep(self, outcome: tuple[Any, BaseException | None]) -> None:
        while True:
            try:
                return self._own.put(outcome, timeout=0.05)
            except queue.Full:
                if self._stop.is_set() or self._exchange.is_stale:
                    raise Ended from None


def _forget(files: deque[Path], takes_none: bool) -> None:
    """Forget files that have been taken. If ``takes_none`` is set, also remove the files that have not been taken."""
    while files and (takes_none or not files[0].exists()):
        files.popleft().unlink(missing_ok=True)


def part(batch: Any, share: Share) -> Any:
    """Return a task's share of a batch of arrays."""
    if share.size == 1:
        return batch
    low, high = share.bounds(examples_of(batch))
    return tf.nest.map_structure(lambda leaf: None if leaf is None else leaf[low:high], batch)


def examples_of(batch: Any) -> int:
    return next(len(leaf) for leaf in tf.nest.flatten(batch) if leaf is not None)
