"""Contains a source for a ``keras.utils.PyDataset``. The tasks on a machine take turns reading its batches, and each
takes its share of every batch.
"""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

# Keras 3.15: the code that turns a PyDataset's batches into specs is not public.
from keras.src.trainers.data_adapters.data_adapter_utils import get_tensor_spec

# Keras 3.15: there is no public way to find out whether the iterator of fit resets datasets.
from keras.src.trainers.epoch_iterator import EpochIterator

from .....errors import InvalidInput
from . import failures
from .base import BatchSource, Opened, Reading, Share
from .pass_place import PassPlace, pass_place
from .prefetch import Ahead
from .reading_turns import Turns
from .shared_reading import Exchange, check_fits, checked, ended, machines_of
from .shared_state import Changes, all_of, apply, changes_of, draw_from, drawing_from, vary

_LOOKED_AT = 2
"""The number of batches that determine the spec of all batches, as in Keras."""


@dataclass
class PyDatasetSource(BatchSource):
    """A source for a ``PyDataset``. ``pickled``: the object, pickled by cloudpickle, as an array of bytes that the
    tasks on a machine share.
    """

    what: ClassVar[str] = "the PyDataset"
    is_copied: ClassVar[bool] = True
    weighs_other_classes: ClassVar[bool] = True
    hooks: ClassVar[tuple[str, ...]] = ("on_epoch_begin", "on_epoch_end")
    """The methods that may change the object: Keras's hooks, or ``begin_pass``, which is called at the start of each
    pass.
    """
    is_shuffled: ClassVar[bool] = True
    """Whether ``shuffle`` applies to this source."""
    is_drawn_alike: ClassVar[bool] = False
    """Whether the hooks draw from generators that are seeded equally in all copies, so that the copies on all machines
    stay equal.
    """

    pickled: np.ndarray[Any, Any]
    length: int
    """The number of batches in a pass; -1: endless."""

    @property
    def batches(self) -> int:
        return self.length

    def copy(self) -> Any:
        """Return a copy of the passed object."""
        return pickle.loads(self.pickled.data)

    def drawing(self, dataset: Any) -> Any:
        """Return the part of a copy that holds the random generators that ``__getitem__`` draws from."""
        return dataset

    def open(self, ctx: Any, reading: Reading) -> Opened:
        """See ``BatchSource``. ``__getitem__`` is called for the first two batches, as in Keras."""
        reader = _Reader(self, ctx, reading)
        # No prefetch: a request for a batch that no other task requests would never return. The reader reads ahead
        # instead.
        dataset = tf.data.Dataset.from_generator(reader.shares, output_signature=reader.spec)
        if self.length >= 0:
            dataset = dataset.apply(tf.data.experimental.assert_cardinality(self.length))
        options = tf.data.Options()
        options.experimental_optimization.apply_default_optimizations = False  # they add a prefetch
        options.autotune.enabled = False
        options.threading.private_threadpool_size = 1  # waiting for a batch must not block training threads
        dataset = dataset.with_options(options)

        def standing(epochs: int, steps: int, steps_per_epoch: int | None) -> tuple[Any, int]:
            place = pass_place(self.length, epochs, steps, steps_per_epoch)
            reader.go_to(place)
            return dataset, place.seen

        return Opened(dataset, self.length, standing=standing, division=reader.division)

    def leave(self, ctx: Any, share: Share) -> None:
        """See ``BatchSource``."""
        with suppress(OSError):  # after the end of the run, the exchange's directory does not exist
            ended(ctx, share)


class _Reader:
    """Reads a PyDataset in a task. A new iteration stops the previous iteration, and is not affected by it."""

    def __init__(self, source: PyDatasetSource, ctx: Any, reading: Reading) -> None:
        self._source = source
        self._ctx = ctx
        self._reading = reading
        self._turns: Turns | None = None
        self._lock = threading.RLock()
        self._before = reading.first_epoch - reading.began if source.length >= 0 else 0
        """The number of previous epochs of the training run."""
        self._first_pass, self._first = reading.first_epoch, 0
        """The number of the first pass that this reader reads, and the number of its first batch in that pass."""
        self._begin()
        machines = machines_of(ctx, reading.share)
        self._refuse_apart(machines)
        self.division = ""
        if reading.share.size > 1:
            together = len(self._exchange.members)
            self.division = (
                f"The {together} tasks on a machine take turns computing batches, and each takes a share of every batch"
                if together > 1
                else "Every task computes all batches, and takes a share of each"
            )
            if together > 1 and machines > 1:
                self.division += f"; each of the {machines} machines computes every batch once"

    def go_to(self, place: PassPlace) -> None:
        """Set the position of the resumed training run, from which the first iteration continues."""
        self._before, self._first_pass, self._first = place.epochs, self._reading.began + place.passes, place.first

    def _begin(self) -> None:
        """Start reading with a fresh copy, for the first or a new attempt of the run."""
        reading, length = self._reading, self._source.length
        alone = reading.share.size > 1 and not reading.in_step
        self._exchange = Exchange(self._ctx, reading.field, reading.share, alone=alone)
        self._dataset = self._source.copy()
        self._changing = [name for name in self._source.hooks if _is_own(self._dataset, name)]
        self._passes = self._epochs = self._told = 0
        self._is_under_way = False
        self.spec: Any = None
        looked_at = _LOOKED_AT if length < 0 else min(length, _LOOKED_AT)
        with drawing_from(reading.own_seed):  # the state that the first calls create must be equal in every copy
            first = [self._batch(number) for number in range(looked_at)]
        self.spec = tf.nest.map_structure(_with_none, get_tensor_spec(first))
        self._vary(reading.share.rank)

    def _vary(self, *by: int) -> None:
        vary(self._source.drawing(self._dataset), *by)

    def shares(self) -> Iterator[Any]:
        """Yield this task's shares of the batches of a pass. Record errors that are caused by the data."""
        try:
            yield from self._shares()
        except Exception as error:
            if failures.is_of_data(error):
                failures.noted(error)
            raise

    def _shares(self) -> Iterator[Any]:
        if self._turns is not None:
            self._turns.stop()
        with self._lock:
            self._turns = None
            if self._exchange.is_stale:
                self._begin()
            self._end_epoch()
            reading, length = self._reading, self._source.length
            number, self._passes = self._passes, self._passes + 1
            if _RESETS and (not number or reading.field != "x"):
                self._call("on_epoch_end")
            if not number:
                for _ in range(self._before):
                    self._begin_epoch()
                    self._end_epoch()
                for _ in range(self._first_pass - reading.began):
                    self._call("begin_pass")
            self._call("begin_pass")
        order = None
        if reading.seed is not None and length >= 0 and self._source.is_shuffled:
            order = np.random.default_rng([reading.seed, self._first_pass + number]).permutation(length)
        stretches = _stretches(length, reading.steps, 0 if number else self._first)
        if reading.field != "x":  # no task would take batches that are read after a validation run
            stretches = itertools.islice(stretches, 1)
        for start, count in stretches:
            self._begin_epoch()
            self._turns = turns = Turns(
                self._exchange,
                reading.share,
                f"{number}-{start}",
                count=count,
                read=partial(self._ahead, number, start, order),
                bound=self._bound,
            )
            try:
                yield from turns
            finally:
                turns.stop()
            with self._lock:
                if self._turns is not turns:
                    return
                self._end_epoch()

    @property
    def _what(self) -> str:
        return f"{self._source.what} in {self._reading.field}"

    @property
    def _bound(self) -> int:
        return max(1, int(self._dataset.max_queue_size) // len(self._exchange.members))

    def _ahead(
        self, passed: int, start: int, order: Any, numbers: Iterable[int], *, instead_of: int | None = None
    ) -> Ahead:
        dataset, reading = self._dataset, self._reading
        known = (reading.own_seed, reading.seed or 0, reading.share.rank, len(reading.field))
        word = (*known, self._first_pass + passed, start, *(() if instead_of is None else (instead_of,)))

        def begin(worker: int) -> None:
            """Seed a process. All processes are forked in the same state, so without seeds they would draw the same
            numbers in every epoch.
            """
            draw_from(*word, worker)
            self._vary(*word, worker)

        at = (start + number if order is None else int(order[start + number]) for number in numbers)
        processes = bool(dataset.use_multiprocessing) and dataset.workers > 0
        return Ahead(
            self._batch,
            at,
            workers=max(1, int(dataset.workers)),
            bound=self._bound,
            begin=begin if processes else None,
        )

    def _batch(self, number: int) -> Any:
        """Return a batch in the form that Keras uses. Raises RuntimeError, which names the batch, for any error in the
        caller's code.
        """
        with _of_data(f"Batch {number} of {self._what} could not be computed in epoch {self._epoch}"):
            batch = self._dataset[number]
        with _of_data():
            batch = checked(_standard(batch, self._what, number), self._what, number)
            if self.spec is not None:
                check_fits(batch, self.spec, self._what, number)
        return batch

    @property
    def _epoch(self) -> int:
        return self._reading.began + self._epochs + 1

    def _begin_epoch(self) -> None:
        self._is_under_way = True
        self._call("on_epoch_begin")
        self._check_length()

    def _end_epoch(self) -> None:
        """End the current epoch, if any, because its batches have been read or the next epoch begins."""
        if self._is_under_way:
            self._is_under_way = False
            self._call("on_epoch_end")
            self._epochs += 1

    def _call(self, hook: str) -> None:
        """Call a hook on this copy, and make this copy equal to the leading task's copy."""
        if hook not in self._changing:
            return
        self._told += 1

        def call() -> None:
            with (
                drawing_from(self._reading.own_seed, self._told),
                _of_data(f"{hook} of {self._what} failed in epoch {self._epoch}"),
            ):
                getattr(self._dataset, hook)()

        exchange = self._exchange
        if not (leads := exchange.leads) or not exchange.others:
            call()
        if exchange.others:
            told: list[Changes] = []

            def tell() -> Changes:
                told.append(changes_of(self._dataset, call) if leads else all_of(self._dataset))
                return told[0]

            changes = exchange.told(f"told-{self._told}", tell, lambda: False)
            if not told:
                apply(self._dataset, changes)
                self._vary(self._reading.share.rank)

    def _check_length(self) -> None:
        with _of_data(f"The number of batches of {self._what} could not be determined in epoch {self._epoch}"):
            now = self._dataset.num_batches
            now = -1 if now is None else int(now)
        if now != self._source.length:
            raise failures.of_data(
                InvalidInput(
                    f"The number of batches of {self._what} must not change from {self._source.length}, got {now} in "
                    f"epoch {self._epoch}"
                )
            )

    def _refuse_apart(self, machines: int) -> None:
        """Raise InvalidInput if the tasks' copies could diverge without an error."""
        share = self._reading.share
        if share.size == 1 or not self._changing or self._source.is_drawn_alike:
            return
        why = ""
        if not self._reading.in_step:
            why = "with parameter servers whose workers are not synchronous"
        elif machines > 1:
            why = f"on {machines} machines"
        if why:
            raise InvalidInput(
                f"`{self._reading.field}`: a PyDataset with its own {' and '.join(self._changing)} must be read by "
                f"synchronous tasks on one machine, because only these can be given the same order, got one {why}. "
                "Use shuffle=True, which shuffles its batches, or a function data_fn(ctx)"
            )


_RESETS = hasattr(EpochIterator, "reset")
"""Whether Keras also calls ``on_epoch_end`` before the first epoch of a ``fit`` run and before each validation run."""


def _is_own(dataset: Any, name: str) -> bool:
    return getattr(type(dataset), name, None) is not getattr(keras.utils.PyDataset, name, None)


def _stretches(length: int, steps: int | None, first: int) -> Iterator[tuple[int, int | None]]:
    """Yield, for each epoch in a pass, its first batch and its number of batches (None: endless). Start at batch
    ``first`` of the pass.
    """
    if length < 0 and not steps:
        yield first, None
        return
    epoch = steps or length
    begins = first // epoch * epoch
    for start in itertools.count(begins, epoch) if length < 0 else range(begins, length, epoch):
        end = start + epoch if length < 0 else min(start + epoch, length)
        yield max(start, first), end - max(start, first)


@contextmanager
def _of_data(what: str = "") -> Iterator[None]:
    """Mark errors in this context as caused by the data. If ``what`` is given, they are converted to RuntimeErrors
    whose messages start with it.
    """
    try:
        yield
    except BaseException as error:  # a SystemExit raised to TensorFlow would not be reported
        if not what and isinstance(error, Exception):
            failures.of_data(error)
            raise
        text = f"{what}: {type(error).__name__}: {error}"
        raise failures.of_data(RuntimeError(text)) from error


def _with_none(spec: Any) -> Any:
    """Return the spec of a leaf, with the optional spec that Keras uses for None replaced with
    ``tf.NoneTensorSpec``.
    """
    return tf.NoneTensorSpec() if isinstance(spec, tf.OptionalSpec) else spec


def _standard(batch: Any, what: str, number: int) -> Any:
    """Return a batch in the structure that Keras expects. Raises InvalidInput if ``batch`` does not have the form of a
    batch.
    """
    if isinstance(batch, dict):
        return batch
    if isinstance(batch, list):
        batch = tuple(batch)
    if hasattr(batch, "shape"):
        batch = (batch,)
    if not isinstance(batch, tuple) or len(batch) not in (1, 2, 3):
        raise InvalidInput(
            "`__getitem__` must return (x,), (x, y), (x, y, sample_weight) or a dict of inputs; for batch "
            f"{number} of {what}, it returned {batch!r:.200}"
        )
    return batch[:2] if len(batch) == 3 and batch[2] is None else batch
