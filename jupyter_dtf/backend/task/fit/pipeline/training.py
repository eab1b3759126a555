"""Runs a task's part of a pipelined ``fit`` job: the chief is the only client, and the other tasks provide their
devices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import keras
import tensorflow as tf

from .....errors import InvalidInput
from .....schema.placement import Placement
from .....schema.strategy import ONE_FORWARD_ONE_BACKWARD, Pipeline
from .....schema.trace import leave_placement
from ...collectives.primitive import Alone
from ...model import keras_io
from ...model.changed_attributes import values_of
from ...trace.session_trace import full_trace
from ..batch_logs import BatchLogs
from ..batched import check_batched
from ..between_batches import BetweenBatches
from ..callbacks import State, callbacks_here
from ..checkpoint_state import variables_of
from ..checkpoints import Resuming, Saving, Training
from ..checks import Asked
from ..data import training_data, validation_data
from ..equal_weights import Weights
from ..first_step_check import guard_of
from ..gradient_sync import Agreement, optimizers_of
from ..job import DataFunction, FitJob, FitResult, name_of
from ..keras_fit import KerasFit, history_of
from ..learning_rate import linear_scaling
from ..models import configure_keras, job_model, restore_model
from ..repeated_step import Parts
from ..replaced_attributes import hooked
from ..single_client import OneClient
from ..steps import Metrics
from ..where_to_begin import check_data, check_model, skip_of, where_to_begin
from . import layer_devices
from .callbacks import Down, Up
from .checks import PipelineChecks
from .engine import Engine
from .limits import own_step


def train(job: FitJob, ctx: Any) -> FitResult | None:
    """Run ``job`` as the client on the chief; on other tasks, run the TensorFlow server until the client ends, and
    return None.

    Raises InvalidInput for a job that a pipeline cannot train, and any error of Keras or TensorFlow.
    """
    strategy, placement = job.strategy, getattr(job.strategy, "placement", None)
    assert isinstance(strategy, Pipeline) and isinstance(placement, Placement)
    if not ctx.is_chief:
        ctx.server.join()
        return None
    if ctx.job_name not in Pipeline.jobs:
        raise InvalidInput(
            f"`jobs`: the client must be a task of {' or '.join(Pipeline.jobs)}, got {ctx.task}", field="jobs"
        )
    if ctx.tracer is not None:
        ctx.tracer.counts_calls = False  # the session is also called to prepare the devices, which is not a step
    configure_keras(job.keras_config)
    alone, here = Alone(), OneClient(ctx)
    begin, stored = where_to_begin(job, here, alone)
    if begin is not None:
        job = begin.job(job)
    keras.utils.set_random_seed(job.seed % 2**32)
    model = job_model(job, PipelineChecks(), Asked.of(job))
    own = [method for method in ("train_step", "test_step") if own_step(model, method)]
    for method in own:
        why = f"It runs on whole batches, each layer on its device: microbatches={strategy.microbatches} is ignored"
        ctx.note("info", f"A custom {method} runs without microbatches", why)
    job = _whole_executions(job, model.steps_per_execution)
    for name, plain, why in (("jit_compile", False, "several tasks"), ("steps_per_execution", 1, "microbatches")):
        if getattr(model, name) != plain:
            setattr(model, name, plain)
            ctx.note("info", f"{name} is ignored", f"A step with {why} does not support it")
    if begin is not None:
        check_data(begin, job, 1)
    skip = skip_of(begin, job, 1)
    data = training_data(job, here, alone, 1, skip=skip)
    _refuse_not_dense(data.dataset.element_spec)
    spec = keras_io.batch_spec(data.dataset.element_spec)
    check_batched(model, spec, name_of(job.data), "x", divided=not isinstance(job.data, DataFunction))
    keras_io.build(model, spec)
    restore_model(model, job, ctx)
    if begin is not None:
        check_model(begin, model, optimizers_of(model))
    validation = validation_data(job, here, alone, model)
    where = layer_devices.read(placement)
    replicas = strategy.replicas * len(ctx.tasks) // len(ctx.gang)  # fewer if the run has shrunk
    engine = Engine(
        model,
        where,
        strategy.microbatches,
        ctx,
        replicas=replicas,
        in_turn=strategy.schedule == ONE_FORWARD_ONE_BACKWARD,
        known_layers=job.layers,
        scaling=linear_scaling(job, replicas, data.length),
        steps_per_epoch=data.length,
    )
    with closing(engine):
        callbacks = callbacks_here(job.callbacks, True, model)
        told: Any = _Told(engine)
        weights = Weights([], alone, ctx)
        between = BetweenBatches(model, weights, job.callbacks)
        metrics = Metrics(model, alone, lambda: None)
        batch_logs = BatchLogs(model, metrics, alone, job.callbacks, ctx)
        state = State(weights, metrics, told, alone, between, batch_logs=batch_logs)
        first = Down(state, engine, callbacks)
        done = (begin.info.step, begin.info.step_in_epoch) if begin is not None else (0, 0)
        last = Up(
            state,
            job,
            ctx,
            data.length,
            engine=engine,
            own=callbacks,
            trained=model.trainable_variables,
            done=done,
        )
        history = history_of(callbacks)
        training = Training(
            job=job,
            ctx=here,
            reducer=alone,
            optimizers=optimizers_of(model),
            own=callbacks,
            history=history,
            length=data.length,
            passes=1,
            first_epoch=begin.state.first_epoch if begin is not None else job.initial_epoch,
            batch=spec,
            steps_of=data.steps_of,
            fetch=engine.fetch_all,
            load=engine.load,
            attributes=values_of(model),
            owners=None if job.checkpoint is None else engine.parts(variables_of(model, optimizers_of(model))),
        )
        saving = Saving(training, begin, told, last)
        around: list[Any] = [last, saving]
        if begin is not None:
            around.insert(0, Resuming(training, begin, stored))
        parts = Parts(strategy.microbatches * replicas, in_turn=True)
        guard = guard_of(
            job,
            model,
            ctx,
            parts,
            data,
            exact=PipelineChecks().is_exact(job),
            fetch=engine.fetch,
            divides_metrics=False,  # the metrics see the outputs of the whole batch
        )
        fit = KerasFit(job, ctx, data, callbacks, first=first, last=around, guard=guard, history=history, skip=skip)
        with ExitStack() as stack:
            stack.enter_context(
                hooked(
                    model,
                    train_function=_stepping(_Recording(engine, ctx)),
                    test_function=_stepping(engine.test),
                    reset_metrics=engine.reset_metrics,
                    _get_metrics_result_or_logs=engine.metrics_or_logs,
                )
            )
            stack.enter_context(hooked(model.optimizer, finalize_variable_values=_fetching(engine, model.optimizer)))
            try:
                fit(model, validation)
            finally:
                saving.close()
    return fit.result(model, spec)


def _whole_executions(job: FitJob, steps: int) -> FitJob:
    """Return the job with the numbers of steps that Keras takes if it executes ``steps`` steps at a time.

    Keras never cuts an execution short because of ``steps_per_epoch`` or ``validation_steps``, only if data ends.
    """

    def whole(count: int | None) -> int | None:
        return count and -(-count // steps) * steps

    return dataclasses.replace(
        job, steps_per_epoch=whole(job.steps_per_epoch), validation_steps=whole(job.validation_steps)
    )


class _Recording:
    """Runs training steps, and records the devices on which the layers ran in the first ``steps`` steps.

    Two steps are recorded by default, because the very first step also prepares the devices.
    """

    def __init__(self, engine: Engine, ctx: Any, steps: int = 2) -> None:
        self._engine = engine
        self._ctx = ctx
        self._is_told = False
        self._left = steps

    def __call__(self, batch: Any, spec: Any) -> dict[str, Any]:
        if not self._left:
            return self._engine.train(batch, spec)
        self._left -= 1
        metadata = tf.compat.v1.RunMetadata()
        logs = self._engine.train(batch, spec, full_trace(), metadata)
        if self._engine.order and not self._is_told:
            self._is_told = True
            self._ctx.note("info", "The order of microbatches", self._engine.order)
        leave_placement(self._ctx.run_dir, self._engine.placement(metadata))
        return logs


class _Told:
    """The engine's values that the callbacks of ``fit`` use, in place of those of a ``GradientSync``."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def agreement(self) -> Agreement:
        return Agreement(float(self._engine.examples), False, self._engine.learning_rate)

    def begin_epoch(self, epoch: int, done: int = 0) -> None:
        self._engine.begin_epoch(epoch, done)


def _stepping(run: Callable[[Any, Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    """Return a function that Keras can call with an iterator over batches."""

    def function(iterator: Any) -> dict[str, Any]:
        return run(next(iterator), iterator.element_spec)

    return function


def _fetching(engine: Engine, optimizer: Any) -> Callable[[Any], None]:
    """Wrap the optimizer's final change to the weights so that the weights are first fetched into the model."""
    finalize = optimizer.finalize_variable_values

    def finalize_variable_values(variables: Any) -> None:
        engine.fetch()
        finalize(variables)

    return finalize_variable_values


def _refuse_not_dense(spec: Any) -> None:
    for leaf in tf.nest.flatten(spec):
        if leaf is not None and not isinstance(leaf, (tf.TensorSpec, tf.NoneTensorSpec)):
            raise InvalidInput(f"`data` must consist of dense tensors for a pipeline, got {leaf}", field="data")
