"""Batches read in turn by the tasks of a machine: each reads every so many-th whole and hands the others their shares.

What one task hands another is a file in the memory that the tasks of a machine share, renamed when it is complete and
removed by the one that takes it. The training's collectives go on meanwhile, and know nothing of it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from .....errors import InvalidInput
from .....schema import payload
from .....schema.room import FULL, refusal
from ...context import check_gang
from .base import Share

_FIRST_LOOK_S, _LAST_LOOK_S = 0.0003, 0.005
"""How often one looks whether a file has come: at first, and when it has been waited for for long."""
_PIECE_BYTES = 4 << 20


class Ended(Exception):
    """The reading has been given up: nobody wants what comes next."""


class Exchange:
    """This task's way to the others of its machine that read the same source. ``field`` tells sources apart.

    What is handed over has a name, which is used once. ``alone``: this task reads by itself.
    """

    _opened: ClassVar[Counter[tuple[str, int, str]]] = Counter()

    def __init__(self, ctx: Any, field: str, share: Share, *, alone: bool = False) -> None:
        self._ctx = ctx
        self.rank = share.rank
        self.members = [share.rank] if alone else members_of(ctx, share)
        """The ranks that read together."""
        self.place = self.members.index(share.rank)
        self.attempt: int = getattr(ctx, "attempt", 1)
        known = (getattr(ctx, "run_id", ""), self.attempt, field)
        self._prefix = f"{self.attempt}-{field}-{self._opened[known]}"
        self._opened[known] += 1  # every task of an attempt opens the same sources in the same order
        if len(self.members) > 1:
            self._directory = Path(ctx.shared_dir) / "batches"
            self._directory.mkdir(mode=0o700, exist_ok=True)
            self._forget_earlier_attempts()

    @property
    def others(self) -> list[int]:
        return [rank for rank in self.members if rank != self.rank]

    @property
    def is_stale(self) -> bool:
        """Whether this is of an earlier attempt than the run's."""
        return bool(getattr(self._ctx, "attempt", 1) != self.attempt)

    def put(self, name: str, to: int, value: Any, stopped: Callable[[], bool], taken: Callable[[], bool]) -> Path:
        """Hand something over. Waits where memory is full and ``taken`` says that some of it may come free.

        Returns the file, which is there until it is taken. Raises Ended, OSError, RuntimeError for a lost task.
        """
        path = self._path(name, to)
        aside = path.with_name(f".{path.name}")
        packed = payload.packed(value)
        last = False
        while True:
            try:
                with open(aside, "wb") as file:
                    for piece in packed.chunks(_PIECE_BYTES):
                        file.write(piece)
                os.rename(aside, path)
                return path
            except OSError as error:
                with contextlib.suppress(OSError):
                    aside.unlink()
                if error.errno not in FULL or last:
                    raise OSError(
                        error.errno, refusal(aside.parent, "A batch for another task", error, needed=packed.size)
                    ) from error
            last = taken()
            self.wait(taken, stopped)

    def take(self, name: str, stopped: Callable[[], bool]) -> Any:
        """What another task hands over by this name, when it has come. Raises Ended, RuntimeError for a lost task."""
        path = self._path(name, self.rank)
        self.wait(path.exists, stopped)
        value = payload.load(path)
        path.unlink()
        return value

    def told(self, name: str, value: Callable[[], Any], stopped: Callable[[], bool]) -> Any:
        """What ``value`` returns on the first of the members, on all of them. Raises as ``take``."""
        if self.place:
            return self.take(name, stopped)
        found = value()
        for rank in self.others:
            self.put(name, rank, found, stopped, lambda: True)
        return found

    def wait(self, condition: Callable[[], bool], stopped: Callable[[], bool]) -> None:
        """Return when the condition is true. Raises Ended, and RuntimeError where other tasks are lost."""
        pause = _FIRST_LOOK_S
        while not condition():
            if stopped():
                raise Ended
            self.check()
            time.sleep(pause)
            pause = min(pause * 1.3, _LAST_LOOK_S)

    def check(self) -> None:
        """Raise RuntimeError where the run has a newer attempt, and Ended where this task is in that already."""
        if self.is_stale:
            raise Ended
        check_gang()

    def _path(self, name: str, to: int) -> Path:
        return self._directory / f"{self._prefix}-{name}-{to}"

    def _forget_earlier_attempts(self) -> None:
        for path in self._directory.iterdir():
            attempt = path.name.lstrip(".").partition("-")[0]
            if attempt.isdecimal() and int(attempt) < self.attempt:
                path.unlink(missing_ok=True)


def members_of(ctx: Any, share: Share) -> list[int]:
    """The ranks of a share's tasks that are on this task's machine."""
    machines = ctx.machines if share.size > 1 else []
    return [rank for rank in range(share.size) if share.size == 1 or machines[rank] == machines[share.rank]] or [0]


def machines_of(ctx: Any, share: Share) -> int:
    """On how many machines the share's tasks are."""
    return len(set(ctx.machines[: share.size])) if share.size > 1 else 1


class Turns:
    """One stretch of a source's batches, numbered from 0, of which the members read one after the other.

    ``read(numbers)`` is an iterable of the whole batches of these numbers, in order, with a ``stop``. ``bound``: how
    many shares may wait in memory for each of the other tasks.
    """

    def __init__(
        self,
        exchange: Exchange,
        share: Share,
        name: str,
        *,
        count: int | None,
        read: Callable[[Iterable[int]], Any],
        bound: int,
    ) -> None:
        self._exchange = exchange
        self._share = share
        self._name = name
        self._count = count
        self._bound = max(1, bound)
        self._stop = threading.Event()
        together = len(exchange.members)
        numbers: Iterable[int] = itertools.count(exchange.place, together)
        if count is not None:
            numbers = range(exchange.place, count, together)
        self._read = read(numbers)
        self._numbers = iter(numbers)
        self._own: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(self._bound)
        self._thread = threading.Thread(target=self._send, name="dtf-batches", daemon=True)
        if together > 1:
            self._thread.start()

    def __iter__(self) -> Iterator[Any]:
        """This task's shares. Raises what reading raises, and RuntimeError where another task is lost."""
        if len(self._exchange.members) == 1:
            for batch in self._read:
                yield part(batch, self._share)
            return
        together, place = len(self._exchange.members), self._exchange.place
        for number in itertools.count() if self._count is None else range(self._count):
            if number % together == place:
                value, error = self._next_own()
                if error is not None:
                    raise error
                yield value
            else:
                yield self._exchange.take(f"{self._name}-{number}", self._stop.is_set)

    def stop(self) -> None:
        """Read no more. Waits until nothing is under way."""
        self._stop.set()
        self._read.stop()
        if self._thread.ident is not None:
            self._thread.join()

    def _next_own(self) -> tuple[Any, BaseException | None]:
        while True:
            try:
                return self._own.get(timeout=0.05)
            except queue.Empty:
                if self._stop.is_set():
                    raise Ended from None
                self._exchange.check()

    def _send(self) -> None:
        waiting: dict[int, deque[Path]] = {rank: deque() for rank in self._exchange.others}
        try:
            for number, batch in zip(self._numbers, self._read, strict=False):
                for rank, files in waiting.items():
                    while len(files) >= self._bound:
                        self._exchange.wait(lambda: not files[0].exists(), self._stop.is_set)  # noqa: B023
                        files.popleft()
                    share = part(batch, Share(rank, self._share.size))
                    files.append(
                        self._exchange.put(
                            f"{self._name}-{number}",
                            rank,
                            share,
                            self._stop.is_set,
                            lambda: not any(file.exists() for each in waiting.values() for file in each),
                        )
                    )
                self._keep((part(batch, self._share), None))
        except BaseException as error:
            with contextlib.suppress(Ended):
                self._keep((None, error))
        finally:
            self._read.stop()

    def _keep(self, outcome: tuple[Any, BaseException | None]) -> None:
        while True:
            try:
                return self._own.put(outcome, timeout=0.05)
            except queue.Full:
                if self._stop.is_set() or self._exchange.is_stale:
                    raise Ended from None


def part(batch: Any, share: Share) -> Any:
    """A task's share of a batch of arrays."""
    if share.size == 1:
        return batch
    low, high = share.bounds(examples_of(batch))
    return tf.nest.map_structure(lambda leaf: leaf[low:high], batch)


def examples_of(batch: Any) -> int:
    return len(tf.nest.flatten(batch)[0])


def checked(batch: Any, what: str, number: int) -> Any:
    """A batch with NumPy arrays for its leaves. Raises InvalidInput, which names it, for what is no batch."""
    batch = tf.nest.map_structure(lambda leaf: _array(leaf, what, number), batch)
    lengths: Sequence[int] = [len(leaf) for leaf in tf.nest.flatten(batch)]
    if len(set(lengths)) != 1:
        raise InvalidInput(
            f"The arrays of a batch must hold equally many examples. Received: batch {number} of {what}, with {lengths}"
        )
    return batch


def _array(leaf: Any, what: str, number: int) -> Any:
    if hasattr(leaf, "detach") and hasattr(leaf, "cpu"):  # of PyTorch
        leaf = leaf.detach().cpu()
    dense = not hasattr(leaf, "tocsr") and not isinstance(leaf, (tf.RaggedTensor, tf.SparseTensor))
    array = np.asarray(leaf) if dense else None
    if array is None or array.ndim == 0:
        raise InvalidInput(
            f"Batches must be of dense arrays whose first dimension is the examples. Received: in batch {number} of "
            f"{what} {leaf!r:.200}"
        )
    return array


def check_fits(batch: Any, spec: Any, what: str, number: int) -> None:
    """Raise InvalidInput, which names the batch, unless it is like the first ones."""
    try:
        tf.nest.assert_same_structure(spec, batch)
        fits = all(
            expected.shape.is_compatible_with(leaf.shape)
            for expected, leaf in zip(tf.nest.flatten(spec), tf.nest.flatten(batch), strict=True)
        )
    except (TypeError, ValueError):
        fits = False
    if not fits:
        shapes = tf.nest.map_structure(lambda leaf: leaf.shape, batch)
        wanted = tf.nest.map_structure(lambda leaf: tuple(leaf.shape), spec)
        raise InvalidInput(
            f"The batches of {what} must have the structure and the shapes of its first two, {wanted}. Received: batch "
            f"{number} of {shapes}"
        )
