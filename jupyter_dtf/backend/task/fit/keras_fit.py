"""Calls Keras's own ``model.fit`` in a task, for all strategies, and collects its result."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

# Keras 3.15: there is no other way to replace the epoch iterator of fit.
from keras.src.backend.tensorflow import trainer

from ....schema.strategy import InGraph
from ..model import changed_attributes
from ..model.model_state import take_more
from ..model.questions import ask
from ..trace.callback import trace_callbacks
from .batched import check_batched
from .callbacks import Last, attributes_of, pickles_of
from .checkpoints import Resuming, Saving
from .compiled_model import Unchanged
from .data import Skip, TaskData
from .failed_batch import BatchPlace
from .first_step_check import Guard
from .input_time import timed
from .job import Arrays, FitJob, FitResult, name_of
from .sources import failures
from .sources.base import BatchSource


class KerasFit:
    """One call to ``model.fit``. ``own``: the job's callbacks that run on this task. ``first``, ``last``: the
    strategy's callbacks, which run before and after these.

    ``guard``: the guard that compares the first step; None: no comparison. ``history``: the callback that records the
    history, whether or not it is in ``own``. ``skip``: the part of the first epoch to skip. ``again``: the events that
    the callbacks have already received, in a process that continues a training run. ``attributes``: the attributes that
    the model had before training; None: those that it has when this object is called.
    """

    def __init__(
        self,
        job: FitJob,
        ctx: Any,
        data: TaskData,
        own: Sequence[Any],
        *,
        first: Any,
        last: Any,
        guard: Guard | None = None,
        history: keras.callbacks.History | None = None,
        skip: Skip | None = None,
        again: Again | None = None,
        attributes: changed_attributes.Values | None = None,
    ) -> None:
        self._job = job
        self._ctx = ctx
        self._data = data
        self._own = own
        self._skip = skip
        self._history = history or history_of(own)
        self._again = again
        self._attributes = attributes
        record = [] if self._history in own else [self._history]
        last = last if isinstance(last, list) else [last]
        is_stream = isinstance(job.data, BatchSource) and job.data.continues
        self._saving = next((each for each in last if isinstance(each, Saving)), None) if is_stream else None
        counted = next((each for each in last if isinstance(each, Last)), None)
        done = counted.step - counted.step_in_epoch if counted is not None else 0
        self._theirs = [*trace_callbacks(ctx.tracer, done), *own, *record]
        self._callbacks = [first, *self._theirs, *last]
        resuming = next((each for each in last if isinstance(each, Resuming)), None)
        if resuming is not None:
            self._callbacks.insert(1, resuming.before)
        if guard is not None:
            # The guard comes before ``first``, from which on changes are recorded as those of the caller's callbacks.
            self._callbacks = [guard.after, *self._callbacks, guard.before]

    def __call__(self, model: Any, validation: TaskData | None) -> None:
        """Train the model. Raises any exception that the caller's code raises."""
        job, data = self._job, self._data
        if self._attributes is None:
            self._attributes = changed_attributes.values_of(model)
        arguments = {"model": model, "epochs": job.epochs, "steps": data.length, "verbose": 0}
        place = BatchPlace(
            f"{name_of(job.data)} in x", f"{name_of(job.validation_data)} in validation_data", model.steps_per_execution
        )
        unchanged = Unchanged(self._own, may_make=isinstance(job.strategy, InGraph))
        number = self._callbacks.index(self._own[-1]) + 1 if self._own else 1
        heard = [place, *self._callbacks[:number], unchanged, *self._callbacks[number:]]
        if self._again is not None:
            ours = [callback for callback in heard if callback not in self._theirs]
            callbacks = _GoingOnList(self._skip or Skip(0, 0), self._again, ours, heard, **arguments)
        elif self._skip is None:
            callbacks = keras.callbacks.CallbackList(heard, **arguments)
        else:
            callbacks = _SkippingList(self._skip, heard, **arguments)
        model.make_train_function()
        model.train_function = timed(model.train_function)
        if self._skip is not None:
            model.train_function = _skipping(model.train_function, self._skip)
        if self._saving is not None:
            model.train_function = _telling(model.train_function, self._saving)
        unchanged.expect(model)
        if validation is not None:
            spec = validation.dataset.element_spec
            check_batched(model, spec, name_of(job.validation_data), "validation_data", divided=True)
        with warnings.catch_warnings(), _within_a_pass(data):
            warnings.filterwarnings("ignore", "Your input ran out of data")  # tasks may have fewer steps than others
            failures.taken()  # discards errors from earlier reads
            try:
                model.fit(
                    data.dataset,
                    epochs=job.epochs,
                    initial_epoch=job.initial_epoch,
                    verbose=0,
                    callbacks=callbacks,
                    shuffle=False,
                    class_weight=data.class_weight,
                    steps_per_epoch=data.steps,
                    validation_data=validation.dataset if validation else None,
                    validation_steps=validation.steps if validation else None,
                    validation_freq=job.validation_freq,
                )
            except Exception as error:
                if (cause := failures.taken()) is not None:
                    raise cause from cause.__cause__
                is_alone_in_it = not getattr(self._ctx, "peer_lost", False)
                if is_alone_in_it and (of_batch := place.named(error)) is not None:
                    raise of_batch from error
                raise

    def result(self, model: Any, spec: Any, updates: dict[str, dict[str, int]] | None = None) -> FitResult:
        """Return the chief's result. ``spec``: the spec of the batches; ``updates``: see ``FitResult``."""
        data = self._job.data
        arrays = (data.x, data.y, data.sample_weight) if isinstance(data, Arrays) else None
        return FitResult(
            weights=model.get_weights(),
            optimizer=[v.numpy() for v in model.optimizer.variables] if model.optimizer is not None else [],
            batch=spec,
            history=self._history.history,
            epoch=self._history.epoch,
            callbacks=attributes_of(self._own, pickles_of(self._job.callbacks, True, model, self._own), self._ctx),
            updates=updates or {},
            more=take_more(model),
            attributes=changed_attributes.changes(model, self._attributes or {}),
            params={name: value for name, value in (self._history.params or {}).items() if name != "model"},
            stop_training=bool(model.stop_training),
            question=ask(model, arrays, spec) if self._job.check else None,
        )


@contextmanager
def _within_a_pass(data: TaskData) -> Iterator[None]:
    """Inside this context, make ``Model.fit`` start in the middle of a pass over a dataset.

    Keras detects the end of a pass by counting its batches, and keeps this count only in its epoch iterator.
    """
    if not data.seen:
        yield
        return
    own = trainer.TFEpochIterator

    class WithinAPass(own):  # type: ignore[misc, valid-type]
        def reset(self) -> None:
            super().reset()
            if self._distributed_dataset is data.dataset:
                self._current_iterator = iter(self._get_iterator())
                self._steps_seen = data.seen

    trainer.TFEpochIterator = WithinAPass
    try:
        yield
    finally:
        trainer.TFEpochIterator = own


def history_of(own: Sequence[Any]) -> keras.callbacks.History:
    """Return the caller's ``History`` callback, if there is one, or a new one."""
    return next((c for c in own if isinstance(c, keras.callbacks.History)), None) or keras.callbacks.History()


class _SkippingList(keras.callbacks.CallbackList):
    """A list of callbacks that are not called for skipped steps."""

    def __init__(self, skip: Skip, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._skip = skip

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if not self._skip.executions:
            super().on_train_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._skip.executions:
            self._skip.executions -= 1
        else:
            super().on_train_batch_end(batch, logs)


@dataclass(frozen=True)
class Again:
    """The events of the current epoch that the callbacks have already received, in a process that continues a training
    run.
    """

    epoch_begun: bool
    epoch_ended: bool


class _GoingOnList(_SkippingList):
    """A list of callbacks that calls only ``ours`` for events that the other callbacks have already received."""

    callbacks: list[Any]

    def __init__(self, skip: Skip, again: Again, ours: list[Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(skip, *args, **kwargs)
        self._ours = ours
        self._begun, self._ended = again.epoch_begun, again.epoch_ended

    def on_train_begin(self, logs: Any = None) -> None:
        with self._among_ours(True):
            super().on_train_begin(logs)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        begun, self._begun = self._begun, False
        with self._among_ours(begun):
            super().on_epoch_begin(epoch, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        ended, self._ended = self._ended, False
        with self._among_ours(ended):
            super().on_epoch_end(epoch, logs)

    @contextmanager
    def _among_ours(self, only: bool) -> Iterator[None]:
        everybody = self.callbacks
        self.callbacks = self._ours if only else everybody
        try:
            yield
        finally:
            self.callbacks = everybody


def _skipping(run: Any, skip: Skip) -> Any:
    """Wrap Keras's train function so that a skipped execution does not train. It only takes ``skip.takes`` batches from
    the iterator.
    """

    def train_function(iterator: Any) -> Any:
        if not skip.executions:
            return run(iterator)
        for _ in range(skip.takes):
            next(iterator, None)  # the last execution of an epoch may be shorter
        return {}

    return train_function


def _telling(run: Any, saving: Saving) -> Any:
    """Wrap Keras's train function so that it reports the end of the data to ``saving`` before Keras ends the epoch."""

    def train_function(iterator: Any) -> Any:
        try:
            return run(iterator)
        except (StopIteration, tf.errors.OutOfRangeError):
            saving.data_ended()
            raise

    return train_function
