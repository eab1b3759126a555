"""Runs one task's part of a ``fit`` job: Keras's own ``model.fit`` on this task's examples, with gradients reduced over
the tasks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import keras

from .....schema.strategy import AllReduce
from ...checkpoint.files import Stored
from ...collectives.primitive import Reducer
from ...context import check_gang
from ...model import changed_attributes, keras_io
from .. import clipping
from ..batch_logs import BatchLogs
from ..batched import check_batched
from ..between_batches import BetweenBatches
from ..callbacks import First, Last, State, callbacks_here
from ..checkpoint_state import Begin, variables_of
from ..checkpoints import Resuming, Saving, Training
from ..checks import Asked, Checks
from ..data import training_data, validation_data
from ..epochs import EpochEnd, until_all_data_ended
from ..equal_weights import Weights
from ..first_step_check import guard_of
from ..gradient_sync import GradientSync, optimizers_of
from ..job import DataFunction, FitJob, FitResult, name_of
from ..keras_fit import KerasFit, history_of
from ..learning_rate import linear_scaling
from ..models import configure_keras, job_model, restore_model, vary_random_numbers
from ..repeated_step import Parts
from ..replaced_attributes import hooked
from ..steps import Metrics, TestStep, TrainStep, shared_variables
from ..where_to_begin import check_data, check_model, skip_of, where_to_begin
from .checks import AllReduceChecks
from .kept_step import KeptStep
from .survivor_state import Standing, agree
from .survivors import Survival, as_of, can_go_on, go_over, reducer_of


def train(job: FitJob, ctx: Any) -> FitResult | None:
    """Run ``job`` as task ``ctx.rank`` of ``ctx.size``. Return the result on the chief, None on the other tasks.

    If other tasks are lost and the run may have another attempt, this process participates in that attempt. Raises
    InvalidInput for a job that cannot be trained with this strategy, RuntimeError if another task has died, and any
    exception that the caller's code raises.
    """
    assert isinstance(job.strategy, AllReduce)
    transport = job.strategy.transport
    reducer = reducer_of(transport, ctx)
    fit: Fit | None = None
    joins = bool(getattr(ctx, "joins", False))
    failed = True
    try:
        while True:
            try:
                fit = _joined(job, ctx, reducer, fit) if joins else _begun(job, ctx, reducer, AllReduceChecks())
                result = fit()
                failed = False
                return result
            except Exception:
                if fit is None or not fit.lives:
                    raise
            fit.stand()
            reducer, joins = go_over(ctx, reducer, transport), True
    finally:
        reducer.close(failed)


def train_with(
    job: FitJob,
    ctx: Any,
    reducer: Reducer,
    checks: Checks,
    *,
    make_step: Callable[[Any, GradientSync, bool], Any] = TrainStep,
    replicas: int | None = None,
) -> FitResult | None:
    """Run Keras's ``fit`` on this task's data. ``make_step(model, sync, may_be_empty)`` returns the replacement for the
    model's ``train_step``.

    ``replicas``: the number of replicas that compute a step's gradients, which is also the factor for scaling the
    learning rate; None: one replica per task.
    """
    return _begun(job, ctx, reducer, checks, make_step=make_step, replicas=replicas)()


def _begun(job: FitJob, ctx: Any, reducer: Reducer, checks: Checks, **options: Any) -> Fit:
    """Create a ``Fit`` that starts from the beginning or from a checkpoint. A collective."""
    configure_keras(job.keras_config)
    begin, stored = where_to_begin(job, ctx, reducer)
    return Fit(job, ctx, reducer, checks, begin=begin, stored=stored, **options)


def _joined(job: FitJob, ctx: Any, reducer: Reducer, fit: Fit | None) -> Fit:
    """Create a ``Fit`` that continues from the furthest of the surviving tasks. A collective.

    ``fit``: the ``Fit`` of this task, if the task has survived. It is reused if the reducer is the same.
    """
    configure_keras(job.keras_config)
    agreed = agree(fit.standing if fit is not None else None, ctx.tasks, job.callbacks, reducer)
    if fit is not None and fit.reducer is reducer:
        joined = fit
        joined.take_up(agreed.begin)
    else:
        joined = Fit(job, ctx, reducer, AllReduceChecks(), begin=agreed.begin)
    held = (fit or joined).variables
    values = reducer.broadcast([variable.numpy() for variable in held], agreed.furthest)
    if joined is not fit or reducer.rank != agreed.furthest:
        for variable, value in zip(joined.variables, values, strict=True):
            variable.assign(value)
    if fit is not None and fit.standing is not None:
        joined.standing = as_of(fit.standing, agreed.begin, reducer.rank)
    return joined


class Fit:
    """A training run in one task, starting at ``begin``. ``stored``: the files of the checkpoint that ``begin`` comes
    from; None on tasks other than the chief.

    For the other arguments, see ``train_with``. Both creating and calling a ``Fit`` are collectives.
    """

    def __init__(
        self,
        job: FitJob,
        ctx: Any,
        reducer: Reducer,
        checks: Checks,
        *,
        begin: Begin | None,
        stored: Stored | None = None,
        make_step: Callable[[Any, GradientSync, bool], Any] = TrainStep,
        replicas: int | None = None,
    ) -> None:
        self.reducer = reducer
        self.standing: Standing | None = None
        """This task's position when other tasks were last lost; None: no task was lost."""
        self._given = job
        self._ctx = ctx
        self._strategy = strategy = job.strategy if isinstance(job.strategy, AllReduce) else AllReduce()
        self._accumulates = strategy.backward_passes_per_step > 1
        self._replicas = replicas
        self._checks = checks
        seed = job.seed if begin is None else begin.state.seed
        keras.utils.set_random_seed((seed + reducer.rank) % 2**32)
        asked = Asked.of(job, shares=replicas or reducer.size)
        self.model = model = job_model(job, checks, asked)
        if begin is not None and not begin.of:  # the state of another task in this run always fits
            check_data(begin, job, model.steps_per_execution)
        self.take_up(begin, stored)
        self._spec = keras_io.batch_spec(self._data.dataset.element_spec)
        is_divided = not isinstance(job.data, DataFunction)
        check_batched(model, self._spec, name_of(job.data), "x", divided=is_divided)
        keras_io.build(model, self._spec)
        restore_model(model, job, ctx)
        checks.validate_built(asked, model)
        vary_random_numbers(model, reducer.rank)
        self._validation = validation_data(self._job, ctx, reducer, model)

        self.optimizers = optimizers = optimizers_of(model)
        if begin is not None and begin.variables:
            check_model(begin, model, optimizers)
        lives = can_go_on(model, job, ctx, optimizers=optimizers, reducer=reducer, begin=begin)
        self._sync = sync = GradientSync(
            reducer,
            strategy,
            may_end=self._data.ends_by_agreement,
            steps_per_epoch=self._data.length,
            steps_of=self._data.steps_of,
            scaling=linear_scaling(job, replicas or reducer.size, self._data.length),
            whole=lives,
        )
        for optimizer in optimizers:
            sync.install(optimizer)
        self._weights = weights = Weights(shared_variables(model, optimizers), reducer, ctx)
        self._between = BetweenBatches(model, weights, job.callbacks)
        self._epoch_end = EpochEnd(model, weights, self._job, self._between)
        self._metrics = Metrics(model, reducer, at_epoch_end=self._epoch_end)
        batch_logs = BatchLogs(model, self._metrics, reducer, job.callbacks, ctx)
        self._state = State(weights, self._metrics, sync, reducer, self._between, batch_logs=batch_logs)
        if (reducer.size > 1 or self._accumulates) and model.jit_compile:
            model.jit_compile = False
            ctx.note("info", "XLA is not used", "jit_compile=True is ignored: XLA cannot compile collectives")
        self._own = callbacks_here(job.callbacks, ctx.is_chief, model)
        self._history = history_of(self._own)
        with ExitStack() as stack:
            if job.check and (replicas or reducer.size) > 1:
                stack.enter_context(hooked(model, train_step=clipping.watched(model, ctx)))
            self._step = make_step(model, sync, self._data.may_be_empty)
        self._kept = KeptStep(model, self._step, self._updated) if lives else None
        self._attributes = changed_attributes.values_of(model)
        self._survival: Survival | None = None
        self._run: Any = None

    @property
    def variables(self) -> list[Any]:
        """The variables that are equal on all tasks."""
        return [variable for _, variable in variables_of(self.model, self.optimizers)]

    def _updated(self) -> list[Any]:
        """Return the variables that an update changes."""
        return [*self.variables, *self._sync.agreed]

    @property
    def lives(self) -> bool:
        """Whether the current exception is due to the loss of other tasks, and this task can continue without them."""
        return self._kept is not None and self._ctx.peer_lost and self._ctx.going_over.is_able

    def stand(self) -> None:
        """Record this task's position after other tasks are lost. If training has not continued since the previous
        loss, keep the position that was recorded then.
        """
        if self._survival is not None and (self.standing is None or self._survival.is_under_way):
            self.standing = self._survival.standing()
        self._survival = None

    def take_up(self, begin: Begin | None, stored: Stored | None = None) -> None:
        """Prepare the next call to continue from ``begin``, or from the beginning if it is None. A collective."""
        job, ctx, reducer = self._given, self._ctx, self.reducer
        if begin is not None:
            job = begin.job(job)
            if begin.is_over:
                job = dataclasses.replace(job, epochs=min(job.epochs, begin.info.epoch))
        self._job, self._begin, self._stored = job, begin, stored
        executions = self.model.steps_per_execution
        self._skip = skip_of(begin, job, executions)
        self._data = training_data(job, ctx, reducer, executions, must_find_end=self._accumulates, skip=self._skip)

    def __call__(self) -> FitResult | None:
        """Train the model. Return the result on the chief, None on the other tasks."""
        job, ctx, model, reducer, begin = self._job, self._ctx, self.model, self.reducer, self._begin
        data, state, sync = self._data, self._state, self._sync
        done = (begin.info.step, begin.info.step_in_epoch) if begin is not None else (0, 0)
        last = Last(state, job, ctx, data.length, done=done)
        passes = self._strategy.backward_passes_per_step
        first_epoch = begin.state.first_epoch if begin is not None else job.initial_epoch
        training = Training(
            job,
            ctx,
            reducer,
            self.optimizers,
            self._own,
            self._history,
            data.length,
            passes,
            first_epoch,
            self._spec,
            steps_of=data.steps_of,
            attributes=self._attributes,
        )
        saving = Saving(training, begin, sync, last)
        has_lived = self._run is not None
        after: list[Any] = [last, saving]
        if begin is not None:
            after.insert(0, Resuming(training, begin, self._stored, has_lived=has_lived))
        again = None
        if self._kept is not None:
            survival = Survival(
                job,
                ctx,
                reducer,
                kept=self._kept,
                metrics=self._metrics,
                own=self._own,
                last=last,
                saving=saving,
                before=self.standing,
            )
            after = [survival.here, *after[:-1], survival.moved, saving, survival]
            again = survival.again if has_lived else None
        parts = Parts(self._replicas or reducer.size, in_turn=self._replicas is not None)
        guard = guard_of(job, model, ctx, parts, data, exact=self._checks.is_exact(job))
        fit = KerasFit(
            job,
            ctx,
            data,
            self._own,
            first=First(state, bool(self._own)),
            last=after,
            guard=guard,
            history=self._history,
            skip=self._skip,
            again=again,
            attributes=self._attributes,
        )
        if has_lived:
            self._begin_anew()
        with ExitStack() as stack:
            stack.enter_context(
                hooked(
                    model,
                    train_step=self._kept or self._step,
                    test_step=TestStep(model),
                    _get_metrics_result_or_logs=self._metrics,
                )
            )
            stack.enter_context(self._between.watched())
            self._make_train_function()
            if self._kept is not None:
                self._survival = survival
            try:
                fit(model, self._validation)
            finally:
                saving.close()
        result = fit.result(model, self._spec) if ctx.is_chief else None
        if self._kept is not None:
            reducer.all_gather("done")  # if the chief is lost before this point, another task still has the model
            # Raises an exception if a new attempt was announced before this point. This task then joins the attempt,
            # and the other tasks receive the trained model.
            check_gang()
            ctx.going_over.say(False)
        if ctx.is_chief and self._weights.checks:
            ctx.note(
                "info",
                "Equal weights",
                f"All {reducer.size} tasks held the same weights after each of {self._weights.checks} epochs",
            )
        return result

    def _begin_anew(self) -> None:
        """Reset the state of operations that the loss of another task has interrupted."""
        self._metrics.validating = False
        self._state.data_ended = False
        self._state.batch_logs.begin_anew()
        self._epoch_end.begin(self._job.initial_epoch)
        self._sync.begin_anew()
        if getattr(self.model, "_eval_epoch_iterator", None) is not None:
            del self.model._eval_epoch_iterator

    def _make_train_function(self) -> None:
        """Create and wrap Keras's train function if it must be wrapped. The function is created only once."""
        model, sync = self.model, self._sync
        if self._kept is None and not sync.may_end:
            return
        if self._run is None:
            model.make_train_function(force=True)
            self._run = until_all_data_ended(model, self._state) if sync.may_end else model.train_function
        model.train_function = self._kept.marking(self._run) if self._kept is not None else self._run
