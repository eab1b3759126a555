"""One task's part of a ``fit``: Keras's own ``model.fit``, on this task's examples, with the others' gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import keras

from ....schema.strategy import AllReduce
from .. import keras_io
from ..collectives import make_reducer
from ..collectives.base import Reducer
from ..trace.callback import trace_callbacks
from .agree import Weights
from .callbacks import First, Last, State, attributes_of, callbacks_here
from .data import training_data, validation_data
from .epochs import EpochEnd, until_all_data_ended
from .gradients import GradientSync, optimizers_of
from .hooks import hooked
from .job import FitJob, FitResult
from .learning_rate import linear_scaling
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
    data = training_data(job, ctx, reducer, model.steps_per_execution, must_find_end=accumulates)
    spec = keras_io.batch_spec(data.dataset.element_spec)
    keras_io.build(model, spec)
    if isinstance(job.model, keras_io.PackedModel):
        keras_io.restore(model, job.model)
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
    history = next((c for c in own if isinstance(c, keras.callbacks.History)), None) or keras.callbacks.History()
    last = Last(state, job, ctx, data.length)
    record = [] if history in own else [history]
    everyone = [First(state, bool(own)), *trace_callbacks(ctx.tracer), *own, *record, last]
    callbacks = keras.callbacks.CallbackList(everyone, model=model, epochs=job.epochs, steps=data.length, verbose=0)
    with ExitStack() as stack:
        stack.enter_context(
            hooked(
                model,
                train_step=make_step(model, sync, data.may_be_empty),
                test_step=TestStep(model),
                _get_metrics_result_or_logs=metrics,
            )
        )
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", "Your input ran out of data")  # a share may be shorter than the others
        if sync.may_end:
            model.make_train_function(force=True)
            model.train_function = until_all_data_ended(model, state)
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
    if not ctx.is_chief:
        return None
    if weights.checks:
        ctx.note(
            "info",
            "Equal weights",
            f"All {reducer.size} tasks held the same weights after each of {weights.checks} epochs",
        )
    return FitResult(
        weights=model.get_weights(),
        optimizer=[v.numpy() for v in model.optimizer.variables] if model.optimizer is not None else [],
        batch=spec,
        history=history.history,
        epoch=history.epoch,
        callbacks=[attributes_of(callback, ctx) for callback in own],
    )
