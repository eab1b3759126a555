"""Exchanges data between the tasks on a machine that read the same source.

Each item is a file in the memory that the tasks on a machine share. The sender renames the file when it is complete,
and the task that takes the item removes it. The exchange does not use the collectives of training, which continue in
the meantime.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from .....errors import InvalidInput
from .....schema import payload
from .....schema.disk_space import FULL, refusal
from ...context import check_gang
from .base import Share

_FIRST_LOOK_S, _LAST_LOOK_S = 0.0003, 0.005
"""The intervals in seconds at which a task checks for a file: at first, and after a long wait."""
_PIECE_BYTES = 4 << 20


class Ended(Exception):
    """Raised because reading has been stopped: no more items are needed."""


class Left(Exception):
    """Raised because the sender has left without handing over the item."""


class Exchange:
    """This task's connection to the other tasks on its machine that read the same source, which ``field`` identifies.

    Every item has a name that is used only once. ``alone``: whether this task reads all batches without the other
    tasks.
    """

    _opened: ClassVar[Counter[tuple[str, int, str]]] = Counter()
    _telling: ClassVar[threading.Lock] = threading.Lock()
    """Held while ``told`` sends items, so that all other tasks receive their items before this task announces its
    end.
    """

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
            self._directory = _directory(ctx)
            self._forget_earlier_attempts()

    @property
    def others(self) -> list[int]:
        return [rank for rank in self.members if rank != self.rank]

    @property
    def is_stale(self) -> bool:
        """Whether this exchange belongs to an earlier attempt of the run."""
        return bool(getattr(self._ctx, "attempt", 1) != self.attempt)

    def put(self, name: str, to: int, value: Any, stopped: Callable[[], bool], taken: Callable[[], bool]) -> Path:
        """Hand over an item. If memory is full, wait until ``taken`` returns True, because all waiting items have been
        taken.

        Returns the file, which exists until it is taken. Raises Ended when stopped, OSError if the item cannot be
        written, and RuntimeError if another task is lost.
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

    def take(self, name: str, stopped: Callable[[], bool], sender: int, stretch: str = "") -> Any:
        """Wait for an item from another task, and return it.

        Raises Ended when stopped, RuntimeError if another task is lost, and Left if the item will not arrive because
        ``sender`` has left ``stretch``.
        """
        path = self._path(name, self.rank)
        self.wait(lambda: path.exists() or self.has_left(sender, stretch), stopped)
        if not path.exists():  # checked again, because the item may have arrived just before the sender left
            raise Left
        value = payload.load(path)
        path.unlink()
        return value

    def told(self, name: str, value: Callable[[], Any], stopped: Callable[[], bool]) -> Any:
        """Return, on all members, the result of ``value`` on the first member that has not ended. Raises Ended and
        RuntimeError under the same conditions as ``take``.
        """
        for rank in self.members[: self.place]:
            try:
                return self.take(name, stopped, rank)
            except Left:
                continue
        with self._telling:
            found = value()
            for rank in self.members[self.place + 1 :]:
                self.put(name, rank, found, stopped, lambda: True)
        return found

    @property
    def leads(self) -> bool:
        """Whether this task sends its results to the other tasks in ``told``, because all members before it have
        ended.
        """
        return all(self.has_left(rank) for rank in self.members[: self.place])

    def leave(self, stretch: str) -> None:
        """Announce that this task no longer takes or hands over items of ``stretch``, and remove its waiting items."""
        self._left(self.rank, stretch).touch(mode=0o600)
        for path in self._directory.glob(f"{self._prefix}-{stretch}-*-{self.rank}"):
            path.unlink(missing_ok=True)

    def has_left(self, rank: int, stretch: str = "") -> bool:
        """Return whether a task has ended, or has left ``stretch`` (see ``reading_turns``)."""
        return _ended(self._directory, self.attempt, rank).exists() or (
            bool(stretch) and self._left(rank, stretch).exists()
        )

    def wait(self, condition: Callable[[], bool], stopped: Callable[[], bool]) -> None:
        """Wait until ``condition`` returns True. Raises Ended when stopped, and RuntimeError if other tasks are
        lost.
        """
        pause = _FIRST_LOOK_S
        while not condition():
            if stopped():
                raise Ended
            self.check()
            time.sleep(pause)
            pause = min(pause * 1.3, _LAST_LOOK_S)

    def check(self) -> None:
        """Raise RuntimeError if the run has a newer attempt, and Ended if this task is already part of that attempt."""
        if self.is_stale:
            raise Ended
        check_gang()

    def _left(self, rank: int, stretch: str) -> Path:
        return self._directory / f"{self._prefix}-{stretch}-{rank}.left"

    def _path(self, name: str, to: int) -> Path:
        return self._directory / f"{self._prefix}-{name}-{to}"

    def _forget_earlier_attempts(self) -> None:
        for path in self._directory.iterdir():
            attempt = path.name.lstrip(".").partition("-")[0]
            if attempt.isdecimal() and int(attempt) < self.attempt:
                path.unlink(missing_ok=True)


def ended(ctx: Any, share: Share) -> None:
    """Announce that a task's program has ended, so that the task no longer takes or reads batches. Raises OSError if
    this fails.
    """
    if len(members_of(ctx, share)) > 1:
        with Exchange._telling:
            _ended(_directory(ctx), getattr(ctx, "attempt", 1), share.rank).touch(mode=0o600)


def _directory(ctx: Any) -> Path:
    path = Path(ctx.shared_dir) / "batches"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def _ended(directory: Path, attempt: int, rank: int) -> Path:
    return directory / f"{attempt}-ended-{rank}"


def members_of(ctx: Any, share: Share) -> list[int]:
    """Return the ranks of the tasks on this task's machine, among the tasks that share the batches."""
    machines = ctx.machines if share.size > 1 else []
    return [rank for rank in range(share.size) if share.size == 1 or machines[rank] == machines[share.rank]] or [0]


def machines_of(ctx: Any, share: Share) -> int:
    """Return the number of machines on which the tasks that share the batches run."""
    return len(set(ctx.machines[: share.size])) if share.size > 1 else 1


def checked(batch: Any, what: str, number: int) -> Any:
    """Return a batch whose leaves are NumPy arrays or None. Raises InvalidInput, naming the batch, if a leaf cannot be
    converted or the arrays' lengths differ.
    """
    batch = tf.nest.map_structure(lambda leaf: None if leaf is None else _array(leaf, what, number), batch)
    lengths: Sequence[int] = [len(leaf) for leaf in tf.nest.flatten(batch) if leaf is not None]
    if len(set(lengths)) != 1:
        raise InvalidInput(
            f"A batch must have arrays with the same number of examples, got batch {number} of {what} with {lengths}"
        )
    return batch


def _array(leaf: Any, what: str, number: int) -> Any:
    if hasattr(leaf, "detach") and hasattr(leaf, "cpu"):  # a PyTorch tensor
        leaf = leaf.detach().cpu()
    dense = not hasattr(leaf, "tocsr") and not isinstance(leaf, (tf.RaggedTensor, tf.SparseTensor))
    array = np.asarray(leaf) if dense else None
    if array is None or array.ndim == 0:
        raise InvalidInput(
            f"A batch must consist of dense arrays with a batch dimension; batch {number} of {what} "
            f"contains {leaf!r:.200}"
        )
    return array


def check_fits(batch: Any, spec: Any, what: str, number: int) -> None:
    """Raise InvalidInput, naming the batch, unless it has the structure and shapes of ``spec``, which the first batches
    determine.
    """
    try:
        tf.nest.assert_same_structure(spec, batch)
        fits = all(
            leaf is None if isinstance(expected, tf.NoneTensorSpec) else expected.shape.is_compatible_with(leaf.shape)
            for expected, leaf in zip(tf.nest.flatten(spec), tf.nest.flatten(batch), strict=True)
        )
    except (AttributeError, TypeError, ValueError):
        fits = False
    if not fits:
        shapes, wanted = (tf.nest.map_structure(_shape, found) for found in (batch, spec))
        raise InvalidInput(
            f"A batch of {what} must have the structure and the shapes of the first two batches, {wanted}, got batch "
            f"{number} with {shapes}"
        )


def _shape(leaf: Any) -> tuple[int | None, ...] | None:
    return tuple(leaf.shape) if hasattr(leaf, "shape") else None
