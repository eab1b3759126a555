"""One task's part of a ``fit``: Keras's own ``model.fit``, on this task's examples, with the others' gradients."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import keras

from ....schema.strategy import AllReduce
from .. import keras_io
from ..collectives import make_reducer
from ..collectives.base import Reducer
from .agree import Weights
from .callbacks import First, Last, State, callbacks_here
from .data import training_data, validation_data
from .epochs import EpochEnd, until_all_data_ended
from .gradients import GradientSync, optimizers_of
from .guard import Parts, guard_of
from .hooks import hooked
from .job import FitJob, FitResult
from .keras_fit import KerasFit
from .learning_rate import linear_scaling
from .limits import refuse_stateful, refuse_unshared
from .losses import is_plain_mean
from .models import configure_keras, job_model, vary_random_numbers
from .steps import Metrics, TestStep, TrainStep, shared_variables


def train(job: FitJob, ctx: Any) -> FitResult | None:
    """Run ``job`` as task ``ctx.rank`` of ``ctx.size``. Returns the result on the chief, None elsewhere.

    Raises InvalidInput for what cannot be trained this way, RuntimeError if another task has died, and whatever the
    caller's code raises.
    """
    assert isinstance(job.strategy, AllReduce)
    reducer = make_reducer(job.strategy.transport, ctx)
    failed = True
    try:
        result = train_with(job, ctx, reducer)
        failed = False
        return result
    finally:
        reducer.close(failed)


def train_with(
    job: FitJob,
    ctx: Any,
    reducer: Reducer,
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
    keras.utils.set_random_seed((job.seed + reducer.rank) % 2**32)
    model = job_model(job)
    refuse_stateful(model, replicas or reducer.size)
    data = training_data(job, ctx, reducer, model.steps_per_execution, must_find_end=accumulates)
    spec = keras_io.batch_spec(data.dataset.element_spec)
    keras_io.build(model, spec)
    if isinstance(job.model, keras_io.PackedModel):
        keras_io.restore(model, job.model)
    if (replicas or reducer.size) > 1:
        refuse_unshared(model)
    vary_random_numbers(model, reducer.rank)
    validation = validation_data(job, ctx, reducer, whole_on_chief=not is_plain_mean(model))

    optimizers = optimizers_of(model)
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
    last = Last(state, job, ctx, data.length)
    guard = guard_of(job, model, ctx, Parts(replicas or reducer.size, in_turn=replicas is not None), data)
    fit = KerasFit(job, ctx, data, own, first=First(state, bool(own)), last=last, guard=guard)
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
        fit(model, validation)
    if not ctx.is_chief:
        return None
    if weights.checks:
        ctx.note(
            "info",
            "Equal weights",
            f"All {reducer.size} tasks held the same weights after each of {weights.checks} epochs",
        )
    return fit.result(model, spec)
