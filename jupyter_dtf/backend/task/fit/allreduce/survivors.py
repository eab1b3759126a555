"""Continues training in the surviving processes after other tasks are lost: records the survivors' positions and
replaces the reducer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras

from .....schema.strategy import AllReduce
from ...collectives import begin_anew, make_reducer
from ...collectives.array_reducer import ArrayReducer
from ...collectives.exchangeable import ExchangeableReducer
from ...collectives.primitive import Alone, Reducer
from ...context import check_gang
from ...model.model_state import seed_states
from ..callbacks import Last
from ..checkpoint_state import Begin, attributes
from ..checkpoints import Saving
from ..job import FitJob
from ..keras_fit import Again
from ..own_parts import has_own_train_step
from ..steps import Metrics
from .kept_step import KeptStep
from .survivor_state import Standing

MOST_SHARED = 16 << 20
"""The largest size, in bytes, of a callback's pickled attributes that the chief shares at the start of an epoch."""


def reducer_of(transport: str, ctx: Any) -> Reducer:
    """Return the reducer of all tasks. If the run may continue after losing tasks, the reducer's transport can be
    replaced.

    A collective. Raises the same exceptions as ``make_reducer``.
    """
    reducer = make_reducer(transport, ctx)
    going_over = getattr(ctx, "going_over", None)
    if going_over is None or not going_over.may or not isinstance(reducer, ArrayReducer):
        return reducer
    exchangeable = ExchangeableReducer(reducer, ctx.tasks)
    going_over.on_call = exchangeable.wake
    return exchangeable


def go_over(ctx: Any, reducer: Reducer, transport: str) -> Reducer:
    """Leave the old group of tasks, wait until the tasks of the run's next attempt are announced, and join that
    attempt.

    Return the new reducer. It is the same object if this task's rank and the number of tasks are unchanged.
    """
    reducer.close(failed=True)
    while True:
        spec = ctx.going_over.await_call()
        begin_anew()
        ctx.go_over(spec)
        try:
            inner = make_reducer(transport, ctx)
        except Exception:
            if not ctx.peer_lost:
                raise
            continue  # another task was lost before all tasks had joined
        break
    if not isinstance(inner, ArrayReducer):
        ctx.going_over.on_call = lambda: None
        return inner
    if isinstance(reducer, ExchangeableReducer) and (inner.rank, inner.size) == (reducer.rank, reducer.size):
        reducer.exchange_transport(inner)
        return reducer
    exchangeable = ExchangeableReducer(inner, ctx.tasks)
    ctx.going_over.on_call = exchangeable.wake
    return exchangeable


def can_go_on(
    model: Any, job: FitJob, ctx: Any, *, optimizers: Sequence[Any], reducer: Reducer, begin: Begin | None
) -> bool:
    """Return whether all effects of a step that fails halfway can be undone, so that the step can be repeated.

    Steps must be repeatable even on the last surviving task of a group, which is recognized by ``begin``, because other
    tasks may rejoin it.
    """
    strategy = job.strategy if isinstance(job.strategy, AllReduce) else AllReduce()
    is_left_alone = isinstance(reducer, Alone) and begin is not None and bool(begin.of)
    if not (isinstance(reducer, ExchangeableReducer) or is_left_alone):
        return False
    if ctx.tracer is not None and ctx.tracer.is_told_from_start:  # traced steps must be run only once
        return False
    in_one_go = strategy.backward_passes_per_step == 1 and len(optimizers) == 1
    # With several steps per execution, Keras runs past the end of an epoch that contains only some of the examples.
    has_places = model.steps_per_execution == 1 or job.steps_per_epoch is None
    return not has_own_train_step(model) and in_one_go and has_places


class Survival(keras.callbacks.Callback):
    """A callback that tracks the position of this task during a ``fit`` run. It must be the last callback.

    ``own``: the caller's callbacks that run on this task. The list of callbacks must also contain ``here``, before
    ``Last``, and ``moved``, after ``Last``. ``before``: this task's position when other tasks were lost; None in a new
    process.
    """

    def __init__(
        self,
        job: FitJob,
        ctx: Any,
        reducer: Reducer,
        *,
        kept: KeptStep,
        metrics: Metrics,
        own: Sequence[Any],
        last: Last,
        saving: Saving,
        before: Standing | None,
    ) -> None:
        super().__init__()
        self._job = job
        self._ctx = ctx
        self._reducer = reducer
        self._kept = kept
        self._metrics = metrics
        self._own = list(own)
        self._last = last
        self._saving = saving
        self._shares = not all(job.callbacks.everywhere)
        self._seeds: list[list[int]] = before.seeds if before is not None else []
        self._chiefs: dict[int, bytes] = before.chiefs if before is not None else {}
        self._wants_stop = before is not None and before.wants_stop
        self.epoch = job.initial_epoch
        self._is_between = False
        self._begun = before is not None and before.epoch_begun
        self._ended = before is not None and before.epoch_ended
        self._is_over = False
        self.is_under_way = False
        """Whether this task has restored its whole state and continued training."""
        self.here: Any = _Here(self)
        self.moved: Any = _Moved(self)

    @property
    def again(self) -> Again:
        """The events of the first epoch for which the callbacks of this task have already been called."""
        return Again(self._begun, self._ended)

    def standing(self) -> Standing:
        """Undo any unfinished step, and return the position of this task. Called after a collective has failed."""
        self._kept.take_back()
        within = 0 if self._is_between else self._last.step_in_epoch
        part = self._saving.part(bool(within))
        if within and self._metrics.before_sum is not None:
            part.metrics = self._metrics.before_sum
        state = self._saving.state([])
        ended = self._ended and not self._is_between
        cut = -1 if ended and state.history_epochs and state.history_epochs[-1] == self.epoch else None
        state.history = {name: list(values[:cut]) for name, values in state.history.items()}
        state.history_epochs = list(state.history_epochs[:cut])
        state.told = list(state.told)
        places = self._job.callbacks.places(self._ctx.is_chief)
        return Standing(
            step=self._last.step,
            epoch=self.epoch,
            within=within,
            part=part,
            state=state,
            seeds=self._seeds,
            own=dict(zip(places, part.callbacks, strict=True)),
            chiefs=self._chiefs,
            is_over=self._is_over,
            epoch_begun=self._begun and not self._is_between,
            epoch_ended=ended,
            was_chief=bool(self._ctx.is_chief),
            wants_stop=ended and bool(self.model.stop_training),
        )

    # -- events ---------------------------------------------------------------------------------------------------

    def on_train_begin(self, logs: Any = None) -> None:
        """Prepare for the loss of other tasks, and announce that one surviving task is sufficient from now on, because
        all tasks have the same weights.
        """
        self._kept.prepare()
        if states := seed_states(self.model):
            self._seeds = self._reducer.all_gather([int(state.numpy()[0]) for state in states])
        self._ctx.going_over.say(True)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Raise the error for a lost peer if the run has a newer attempt. A newer attempt can also begin because tasks
        join the run, without any task being lost. This check lets all tasks detect such an attempt at the end of a
        step.
        """
        check_gang()

    def own_heard_of_begin(self, epoch: int) -> None:
        """Record that the caller's callbacks have been called for the start of an epoch."""
        self.epoch, self._is_between, self._begun = epoch, False, True
        self._metrics.before_sum = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.is_under_way = True
        if self._shares:
            self._chiefs = self._reducer.all_gather(self._to_share() if self._ctx.is_chief else None)[0]

    def _to_share(self) -> dict[int, bytes]:
        """Return the attributes of the chief's callbacks that are small enough to be sent in each epoch."""
        pickles = self._saving.callback_pickles
        held = {place: attributes(callback, pickles) for place, callback in enumerate(self._own)}
        return {place: data for place, data in held.items() if len(data) <= MOST_SHARED}

    def own_heard_of_end(self) -> None:
        """Record that the caller's callbacks have been called for the end of the epoch, so that they are not called for
        it again.
        """
        self._ended = True
        if self._wants_stop:
            self.model.stop_training, self._wants_stop = True, False

    def all_heard_of_end(self) -> None:
        """Record that the epoch is over on all tasks."""
        self.epoch += 1
        self._is_between, self._begun, self._ended = True, False, False
        self._is_over = bool(self.model.stop_training)


class _Here(keras.callbacks.Callback):
    def __init__(self, survival: Survival) -> None:
        super().__init__()
        self._survival = survival

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._survival.own_heard_of_begin(epoch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._survival.own_heard_of_end()


class _Moved(keras.callbacks.Callback):
    def __init__(self, survival: Survival) -> None:
        super().__init__()
        self._survival = survival

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._survival.all_heard_of_end()


def as_of(standing: Standing, begin: Any, rank: int) -> Standing:
    """Return a task's position after the task has received the weights of the furthest task."""
    info = begin.info
    same = standing.epoch == info.epoch
    return dataclasses.replace(
        standing,
        step=info.step,
        epoch=info.epoch,
        within=info.step_in_epoch,
        part=begin.state.parts[rank],
        is_over=begin.is_over,
        epoch_begun=standing.epoch_begun and same,
        epoch_ended=standing.epoch_ended and same,
        wants_stop=standing.wants_stop and same,
    )
