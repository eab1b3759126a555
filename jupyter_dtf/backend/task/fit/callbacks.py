"""Contains the first and the last callback of a task, which run before and after the caller's callbacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from ....errors import InvalidInput
from ....schema.metrics import EPOCH, SPEED, VALIDATION
from ..collectives.primitive import Reducer
from .batch_logs import BatchLogs
from .batch_values import BatchValues
from .between_batches import BetweenBatches
from .callback_pickles import Pickles
from .equal_weights import Weights
from .gradient_sync import GradientSync
from .input_time import spent_s
from .job import FitJob, PackedCallbacks
from .step_clock import StepClock
from .steps import Metrics

PROGRESS_PERIOD_S = 0.2
MOST_OF_A_VECTOR = 20
"""The largest size of a vector in an epoch's logs whose numbers are reported."""


class State:
    """The state that ``First`` and ``Last`` share in a task."""

    def __init__(
        self,
        weights: Weights,
        metrics: Metrics,
        sync: GradientSync,
        reducer: Reducer,
        between: BetweenBatches,
        *,
        batch_logs: BatchLogs,
    ) -> None:
        self.weights = weights
        self.batch_logs = batch_logs
        self.between = between
        self.metrics = metrics
        self.sync = sync
        self.reducer = reducer
        self.data_ended = False
        self.checksum = 0
        self.batch_values: BatchValues | None = None
        self.logs: frozenset[str] = frozenset()
        """The names of the last step's logs, before a callback could add others."""
        self.values: dict[str, float] = {}
        """The values of the last step, computed before a callback could reset the metrics."""


def _floats(logs: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in logs.items() if isinstance(value, float)}


class First(keras.callbacks.Callback):
    """A callback that runs before the caller's callbacks. It sets ``Metrics.alone``, because the callbacks that follow
    may run on this task alone. On the chief, it also stores a checksum of the weights before callbacks that may change
    them.
    """

    def __init__(self, state: State, has_callbacks: bool) -> None:
        super().__init__()
        self._state = state
        self._compares = has_callbacks and state.weights.are_shared and state.reducer.rank == 0

    def _begin(self, may_change_weights: bool = False) -> None:
        self._state.metrics.alone = True
        self._state.between.changes.begin()
        if may_change_weights and self._compares:
            self._state.checksum = self._state.weights.checksum_with_copies()

    def on_train_begin(self, logs: Any = None) -> None:
        self._state.metrics.alone = True

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._state.data_ended = False
        self._begin(may_change_weights=True)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._state.metrics.alone = True
        self._state.between.begin()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        state = self._state
        state.between.changes.step_done()
        state.batch_logs.combine(logs)
        assert state.batch_values is not None
        state.logs = frozenset(logs or {})
        state.values = state.batch_values({**(logs or {}), **state.batch_logs.own})
        state.metrics.alone = True
        state.between.begin()

    def on_test_begin(self, logs: Any = None) -> None:
        self._begin(may_change_weights=True)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self._begin()

    def on_test_end(self, logs: Any = None) -> None:
        self._begin(may_change_weights=True)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._begin(may_change_weights=True)

    def on_train_end(self, logs: Any = None) -> None:
        self._begin(may_change_weights=True)


class Last(keras.callbacks.Callback):
    """A callback that runs after the caller's callbacks, applies the changes they made on the chief to all tasks, and
    reports the run's progress.

    ``counts``: see ``BatchValues``. ``done``: the number of steps already done in all epochs, and how many of them
    belong to the epoch in which this run starts.
    """

    def __init__(
        self,
        state: State,
        job: FitJob,
        ctx: Any,
        steps: int | None,
        counts: Callable[[], Mapping[str, float]] | None = None,
        *,
        done: tuple[int, int] = (0, 0),
    ) -> None:
        super().__init__()
        self._counts = counts
        self._state = state
        self._job = job
        self._ctx = ctx
        self._steps = steps
        self.agreement: Any = None
        """The ``Agreement`` of the tasks in the last step."""
        self._step = done[0]
        self._before = done[0] - done[1]
        self._within = done[1]
        self._is_first = True
        self._epoch = 0
        self._epoch_start = self._before
        self._last_s = 0.0
        self._examples = 0.0
        self._examples_s = 0.0
        self._next_progress_s = 0.0
        self._has_warned = False
        self._clock = StepClock(
            ctx.measured,
            has_exchange=state.reducer.is_timed and job.strategy.every_task_steps,
            has_waits=job.strategy.waits_for_tasks,
            input_s=spent_s,
        )

    def on_train_begin(self, logs: Any = None) -> None:
        self._state.metrics.alone = False
        if self._state.reducer.size > 1 or (self._state.weights.are_shared and self._job.callbacks):
            self._state.weights.from_chief()
            if self._job.callbacks:  # BackupAndRestore sets the initial epoch
                changes = self._state.between.changes
                changes.pause()
                said = np.asarray([self.model._initial_epoch or 0, changes.are_any])
                (said,) = self._state.reducer.broadcast([said])
                self.model._initial_epoch = int(said[0])
                if said[1]:
                    changes.settle()
        self._state.batch_values = self._values = BatchValues(self.model, self._counts)
        self._progress()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._state.metrics.alone = False
        self._epoch = epoch
        # These must be set first: if another task is lost in the collective below, this task continues from these
        # numbers.
        self._epoch_start, self._within = self._step - self._within, 0
        if self._job.callbacks:
            self._agree()
        self._last_s = self._examples_s = time.perf_counter()
        self._state.sync.begin_epoch(epoch)
        self._values.begin_epoch()
        self._clock.begin_epoch(self._last_s)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._state.metrics.alone = False
        self._state.between.settle()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        state = self._state
        state.metrics.alone = False
        state.between.pause()
        agreement = self.agreement = state.sync.agreement
        examples, self._examples = agreement.examples - self._examples, agreement.examples
        first, self._is_first = self._is_first, False
        steps = self._steps_done(batch) - self._step
        self._step += steps
        now = time.perf_counter()
        seconds, self._last_s = (now - self._last_s) / max(steps, 1), now
        added = {name: value for name, value in (logs or {}).items() if name not in state.logs}
        values = {**state.values, **_floats(added), **self._more_values()}
        values["learning_rate"] = agreement.learning_rate
        if not first:  # the first step includes compilation
            values["step_seconds"] = seconds
        if examples:  # their gradients have been applied, possibly with those of earlier steps
            if not first:
                values["examples_per_second"] = examples / (now - self._examples_s)
            self._examples_s = now
        self._ctx.report(step=self._step, **values)
        self._clock.steps_done(steps, now)
        if now >= self._next_progress_s:
            self._progress()
        if self.model.stop_training or self._ctx.should_stop:
            if state.reducer.size > 1:
                state.sync.ask_to_stop()
                self.model.stop_training = False  # until all tasks are notified, in the next exchange
            else:
                self.model.stop_training = True
        if agreement.stop:
            self.model.stop_training = True

    def go_on(self) -> None:
        """Prepare to start in the middle of an epoch, after the metrics have been restored."""
        self._values.go_on()

    @property
    def step(self) -> int:
        """The number of steps done in all epochs."""
        return self._step

    def _more_values(self) -> dict[str, float]:
        """Return more values of the last step to report."""
        return {}

    def settle(self) -> None:
        """Make the other tasks follow what callbacks have done since the last step. A collective."""
        self._state.between.settle()

    @property
    def step_in_epoch(self) -> int:
        """The number of steps done in this epoch."""
        return self._step - self._epoch_start

    def _steps_done(self, batch: int) -> int:
        if self.model.steps_per_execution > 1:  # the last execution may be shorter
            return self._epoch_start + self._state.sync.steps
        return self._epoch_start + batch + 1

    def on_test_begin(self, logs: Any = None) -> None:
        self._state.metrics.alone = False
        self._state.metrics.validating = True
        self._take_over()

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self._state.metrics.alone = False
        if self.model.run_eagerly:
            self._state.between.changes.pause()
        if self._ctx.should_stop:
            self.model.stop_evaluating = True

    def on_test_end(self, logs: Any = None) -> None:
        self._state.metrics.alone = False
        self._state.metrics.validating = False
        self._take_over()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._state.metrics.alone = False
        self._agree()
        self._look_at_the_end(epoch)
        if self._ctx.is_chief:
            values = numbers_of(logs or {})
            named = {
                name if name.startswith(VALIDATION) else EPOCH + name: value
                for name, value in values.items()
                if name not in SPEED
            }
            if named:
                self._ctx.report(step=self._step, **named)
            self._ctx.epoch_ended(epoch, self._step, values)
            self._progress()

    def _look_at_the_end(self, epoch: int) -> None:
        """Raise InvalidInput if the data had no batches, and warn if the epoch had fewer steps than
        ``steps_per_epoch``.
        """
        wanted, found = self._job.steps_per_epoch, self.step_in_epoch
        if self.model.stop_training or self._ctx.should_stop or self._has_warned:
            return
        if not self._step:
            raise InvalidInput("`x` must have at least one batch, got data without any", field="x")
        if wanted is not None and found < wanted and self._ctx.is_chief:
            self._has_warned = True
            self._ctx.note(
                "warning",
                f"Epoch {epoch + 1} ended after {found} of {wanted} steps",
                f"The data has no more batches, but steps_per_epoch={wanted} requires more. Later epochs may end "
                "early as well",
            )

    def on_train_end(self, logs: Any = None) -> None:
        self._state.metrics.alone = False
        self._clock.end(time.perf_counter())
        if self._job.callbacks:
            self._agree()

    def _take_over(self) -> None:
        """Copy the chief's weights and attributes to all tasks if its callbacks have changed them for validation, as
        SwapEMAWeights does. A collective.
        """
        state = self._state
        if not self._job.callbacks or not state.weights.are_shared:
            return
        changes = state.between.changes
        changes.pause()
        changed = state.reducer.rank == 0 and state.checksum != state.weights.checksum_with_copies()
        heard = state.reducer.sum(np.asarray([float(changed), float(changes.are_any)]))
        if heard[0]:
            state.weights.from_chief()
        if heard[1]:
            changes.settle()

    def _agree(self) -> None:
        """Copy the changes that the chief's callbacks have made to the weights, attributes and the learning rate to the
        other tasks, and stop training on all tasks if any task has requested it. A collective.
        """
        state, model = self._state, self.model
        stop = bool(model.stop_training or self._ctx.should_stop)
        if not state.weights.are_shared:
            model.stop_training = stop
            return
        rate: Any = getattr(model.optimizer, "learning_rate", None)
        settable = isinstance(rate, keras.Variable)
        changes = state.between.changes
        changes.pause()
        said = np.zeros(4)
        said[0], said[3] = stop, changes.are_any
        if state.reducer.rank == 0:
            said[1] = bool(self._job.callbacks) and state.checksum != state.weights.checksum_with_copies()
            said[2] = float(rate.numpy()) if settable else 0.0
        heard = state.reducer.sum(said)
        model.stop_training = bool(heard[0])
        if settable and state.reducer.rank != 0:
            rate.assign(heard[2])
        if heard[1]:
            state.weights.from_chief()
        if heard[3]:
            changes.settle()

    def _progress(self) -> None:
        if self._ctx.is_chief:
            epochs = self._job.epochs
            total = self._before + self._steps * max(epochs - self._job.initial_epoch, 0) if self._steps else 0
            self._ctx.progress(self._step, total, "step", self._epoch + 1, epochs)
            self._next_progress_s = time.perf_counter() + PROGRESS_PERIOD_S


def numbers_of(logs: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers in an epoch's logs, to which callbacks may have added values of any type. The numbers of a
    short vector, such as the scores of each class, are named ``name[0]``, ``name[1]`` and so on.
    """
    found: dict[str, float] = {}
    for name, value in logs.items():
        if isinstance(value, (float, int, np.integer, np.floating)):
            found[name] = float(value)
        elif _is_short_vector(value):
            found |= {f"{name}[{place}]": float(number) for place, number in enumerate(value)}
    return found


def _is_short_vector(value: Any) -> bool:
    is_vector = isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "biuf"
    return bool(is_vector and value.size <= MOST_OF_A_VECTOR)


def callbacks_here(packed: PackedCallbacks, is_chief: bool, model: Any) -> list[Any]:
    """Return the caller's callbacks that run on this task, in the order that ``PackedCallbacks.places`` returns.

    Their references to parts of the trained model are resolved to the parts of ``model``, which must be built.
    """
    places = packed.places(is_chief)
    if not places:
        return []
    found = Pickles(lambda: model).loads(packed.chiefs if is_chief else packed.others)
    return [found[place] for place in places]


def pickles_of(packed: PackedCallbacks, is_chief: bool, model: Any, own: Sequence[Any]) -> Pickles:
    """Return the pickler for the attributes of ``own``, the callbacks that run on this task."""
    return Pickles(lambda: model, dict(zip(packed.places(is_chief), own, strict=True)))


def attributes_of(callbacks: Sequence[Any], pickles: Pickles, ctx: Any) -> bytes:
    """Return a pickled list with one dict of attributes for each callback. Attributes that cannot be pickled are
    omitted, with a warning to the user.
    """
    held = [
        {name: value for name, value in vars(callback).items() if name not in ("_model", "params")}
        for callback in callbacks
    ]
    try:
        return pickles.dumps(held, copies=True)
    except Exception:  # noqa: S110 - the attributes are tried one by one below
        pass
    for callback, attributes in zip(callbacks, held, strict=True):
        lost = []
        for name in list(attributes):
            try:
                pickles.dumps(attributes[name], copies=True)
            except Exception:
                lost.append(name)
                del attributes[name]
        if lost:
            what = f"{type(callback).__name__} is returned without some attributes"
            ctx.note("warning", what, f"These cannot be pickled: {', '.join(lost)}")
    return pickles.dumps(held, copies=True)
