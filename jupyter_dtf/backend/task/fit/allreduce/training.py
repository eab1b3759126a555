"""One task's part of a ``fit``: Keras's own ``model.fit``, on this task's examples, with the others' gradients."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import keras

from .....schema.strategy import AllReduce
from ...collectives import make_reducer
from ...collectives.contract import Reducer
from ...model import keras_io
from ..agree import Weights
from ..callbacks import First, Last, State, callbacks_here
from ..checkpoints import Resuming, Saving, Training, check_data, check_model, skip_of, where_to_begin
from ..checks import Asked, Checks
from ..data import training_data, validation_data
from ..epochs import EpochEnd, until_all_data_ended
from ..first_step_check import Parts, guard_of
from ..gradient_sync import GradientSync, optimizers_of
from ..hooked import hooked
from ..job import FitJob, FitResult
from ..keras_fit import KerasFit, history_of
from ..learning_rate import linear_scaling
from ..models import configure_keras, job_model, vary_random_numbers
from ..steps import Metrics, TestStep, TrainStep, shared_variables
from .checks import AllReduceChecks


def train(job: FitJob, ctx: Any) -> FitResult | None:
    """Run ``job`` as task ``ctx.rank`` of ``ctx.size``. Returns the result on the chief, None elsewhere.

    Raises InvalidInput for what cannot be trained this way, RuntimeError if another task has died, and whatever the
    caller's code raises.
    """
    assert isinstance(job.strategy, AllReduce)
    reducer = make_reducer(job.strategy.transport, ctx)
    failed = True
    try:
        result = train_with(job, ctx, reducer, AllReduceChecks())
        failed = False
        return result
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
    """Keras's ``fit`` on this task's data. ``make_step(model, sync, may_be_empty)`` takes ``train_step``'s place.

    ``replicas``: how many compute gradients of a step, which is what the learning rate is scaled by; by default one
    in each task.
    """
    strategy = job.strategy if isinstance(job.strategy, AllReduce) else AllReduce()
    accumulates = strategy.backward_passes_per_step > 1
    configure_keras(job.keras_config)
    begin, stored = where_to_begin(job, ctx, reducer)
    if begin is not None:
        job = dataclasses.replace(job, seed=begin.state.seed, initial_epoch=begin.info.epoch)
    keras.utils.set_random_seed((job.seed + reducer.rank) % 2**32)
    asked = Asked.of(job, shares=replicas or reducer.size)
    model = job_model(job, checks, asked)
    if begin is not None:
        check_data(begin, job, model.steps_per_execution)
    skip = skip_of(begin, job, model.steps_per_execution)
    data = training_data(job, ctx, reducer, model.steps_per_execution, must_find_end=accumulates, skip=skip)
    spec = keras_io.batch_spec(data.dataset.element_spec)
    keras_io.build(model, spec)
    if isinstance(job.model, keras_io.PackedModel):
        keras_io.restore(model, job.model)
    checks.validate_built(asked, model)
    vary_random_numbers(model, reducer.rank)
    validation = validation_data(job, ctx, reducer, model)

    optimizers = optimizers_of(model)
    if begin is not None:
        check_model(begin, model, optimizers)
    sync = GradientSync(
        reducer,
        strategy,
        may_end=data.ends_by_agreement,
        steps_per_epoch=data.length,
        scaling=linear_scaling(job, replicas or reducer.size, data.length),
    )
    for optimizer in optimizers:
        sync.install(optimizer)
    weights = Weights(shared_variables(model, optimizers), reducer, ctx)
    epoch = EpochEnd(model, weights, job)
    metrics = Metrics(model, reducer, at_epoch_end=epoch)
    state = State(weights, metrics, sync, reducer)
    if (reducer.size > 1 or accumulates) and model.jit_compile:
        model.jit_compile = False
        ctx.note("info", "XLA is not used", "jit_compile=True is set aside: sums over tasks are no XLA operations")

    own = callbacks_here(job.callbacks, ctx.is_chief)
    history = history_of(own)
    done = (begin.info.step, begin.info.step_in_epoch) if begin is not None else (0, 0)
    last = Last(state, job, ctx, data.length, done=done)
    passes = strategy.backward_passes_per_step
    first_epoch = begin.state.first_epoch if begin is not None else job.initial_epoch
    training = Training(job, ctx, reducer, optimizers, own, history, data.length, passes, first_epoch, spec)
    saving = Saving(training, begin, sync, last)
    after: list[Any] = [last, saving]
    if begin is not None:
        after.insert(0, Resuming(training, begin, stored))
    parts = Parts(replicas or reducer.size, in_turn=replicas is not None)
    guard = guard_of(job, model, ctx, parts, data, exact=checks.is_exact(job))
    fit = KerasFit(
        job, ctx, data, own, first=First(state, bool(own)), last=after, guard=guard, history=history, skip=skip
    )
    with ExitStack() as stack:
        stack.enter_context(
            hooked(
                model,
                train_step=make_step(model, sync, data.may_be_empty),
                test_step=TestStep(model),
                _get_metrics_result_or_logs=metrics,
            )
        )
        if sync.may_end:
            model.make_train_function(force=True)
            model.train_function = until_all_data_ended(model, state)
        try:
            fit(model, validation)
        finally:
            saving.close()
    if not ctx.is_chief:
        return None
    if weights.checks:
        ctx.note(
            "info",
            "Equal weights",
            f"All {reducer.size} tasks held the same weights after each of {weights.checks} epochs",
        )
    return fit.result(model, spec)
