"""A training task, which runs Keras's own ``model.fit``, sends gradients to the ``ps`` tasks and receives variables.

There are two modes. *In step* (synchronous without backup workers), the tasks work as they do under all-reduce, and use
the same code for data, metrics and callbacks. *Apart* (all other settings), a task knows only what the servers report
about the other tasks. It trains on its share of the data or on its own data, computes its own metrics, and never waits
for another task.
"""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from typing import Any

import keras
import msgspec
import numpy as np
import tensorflow as tf

# Keras 3.15: the preparation of a dataset in fit is not public.
from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter

from .....errors import InvalidInput, Unavailable
from .....schema.strategy import ParameterServer
from ...collectives.primitive import Alone, Reducer
from ...model import keras_io
from ...model.changed_attributes import OPTIMIZER, ChangedAttributes, resolved, values_of
from ...model.parts import Reference
from .. import clipping
from ..batch_logs import BatchLogs
from ..batched import check_batched
from ..between_batches import BetweenBatches
from ..callbacks import First, Last, State, callbacks_here
from ..checkpoint_state import variables_of
from ..checkpoints import Resuming, Saving, Training
from ..checks import Asked
from ..data import Skip, TaskData, training_data, validation_data
from ..epochs import EpochEnd, until_all_data_ended
from ..equal_weights import Weights
from ..first_step_check import guard_of
from ..job import DataFunction, FitJob, FitResult, name_of
from ..keras_fit import KerasFit, history_of
from ..learning_rate import linear_scaling
from ..models import configure_keras, job_model, restore_model, vary_random_numbers
from ..repeated_step import Parts
from ..replaced_attributes import hooked
from ..steps import TestStep, TrainStep
from ..where_to_begin import check_data, check_model, restore_checkpoint, skip_of, where_to_begin
from . import moving
from .async_checkpoints import Beginning, OwnSaving, beginning
from .callbacks import OwnBetween, OwnFirst, OwnLast, OwnMetrics, ServedMetrics, ServedWeights
from .checks import ServedChecks
from .messages import Counts, ServedAttributes
from .reducer import Apart, ServedReducer
from .served_parts import ServedParts, can_write_parts
from .server_addresses import AmongWorkers, Places
from .server_client import Client
from .server_optimizer import Exchange
from .skipping import FollowTheRun
from .slots import Plan
from .spec import pieces_of, to_plain, wire_dtype


def train(job: FitJob, ctx: Any) -> FitResult | None:
    """Train as one of the run's training tasks. Return a FitResult on the chief, None on the other tasks.

    A process returns None without training if it replaces a process that had finished training, or if all other tasks
    have ended when it starts.

    Raises InvalidInput for a job that parameter servers cannot train, RuntimeError if a ``ps`` task is lost (the
    message names the task), and any error that the caller's code raises.
    """
    try:
        worker = Worker(job, ctx)
    except Unavailable:
        if not ctx.rejoins:
            raise
        return None  # the servers ended after training; if they had died instead, all tasks would be restarted
    if worker.has_left:
        worker.close()
        return None
    worker.fit()
    return worker.finish()


class Worker:
    """One training task.

    Its constructor builds the model and sends the variables to the servers. Call ``fit``, then ``finish``.
    """

    def __init__(self, job: FitJob, ctx: Any) -> None:
        assert isinstance(job.strategy, ParameterServer)
        strategy = job.strategy
        self._places = places = Places(ctx)
        self._ctx = ctx = AmongWorkers(ctx, len(places.workers))
        self._goes_in_step = strategy.goes_in_step
        self._strategy = strategy

        configure_keras(job.keras_config)
        keras.utils.set_random_seed((job.seed + ctx.rank) % 2**32)
        checks = ServedChecks()
        asked = Asked.of(job, {"worker": len(places.workers), "ps": len(places.servers)})
        self._model = model = job_model(job, checks, asked)
        self._client = Client(ctx, places)
        self._reducer: Reducer = Apart(ctx.rank, ctx.size)
        self._begin, self._stored = None, None
        self._beginning: Beginning | None = None
        self._owners: ServedParts | None = None
        if self._goes_in_step:
            self._reducer = ServedReducer(self._client, ctx.rank, ctx.size)
            self._begin, self._stored = where_to_begin(job, ctx, self._reducer)
            if self._begin is not None:
                job = self._begin.job(job)
        else:
            self._beginning = first = beginning(
                job,
                ctx,
                self._client,
                steps_per_execution=model.steps_per_execution,
                follows_the_run=strategy.backup_workers > 0,
            )
            self._begin, self._stored = first.begin, first.stored
            job = first.job(job)
        self._job = job
        if self.has_left:
            return
        if self._begin is not None or (self._beginning is not None and self._beginning.goes_on):
            keras.utils.set_random_seed((job.seed + ctx.rank) % 2**32)
        if self._begin is not None:
            check_data(self._begin, job, model.steps_per_execution)
        self._skip = self._skipped()
        has_own_data = not self._goes_in_step and isinstance(job.data, DataFunction)
        divided = Alone() if has_own_data else self._reducer
        self._data = training_data(job, ctx, divided, model.steps_per_execution, skip=self._skip)
        self._spec = keras_io.batch_spec(self._data.dataset.element_spec)
        is_divided = not isinstance(job.data, DataFunction)
        check_batched(model, self._spec, name_of(job.data), "x", divided=is_divided)
        keras_io.build(model, self._spec)
        restore_model(model, job, ctx)
        checks.validate_built(asked, model)
        if self._begin is not None:
            check_model(self._begin, model, [model.optimizer])
        vary_random_numbers(model, self._draw)
        self._exchange = self._shared_with_servers()
        self._sync: Any = self._exchange  # for code that takes a GradientSync
        if self._beginning is not None:
            self._beginning.tell(ctx)

    @property
    def has_left(self) -> bool:
        """Whether an earlier process of this task has already finished."""
        return self._beginning is not None and self._beginning.started.has_left

    def close(self) -> None:
        """Disconnect from the servers."""
        self._client.close()

    @property
    def _draw(self) -> int:
        """The index of this process's sequence of random numbers. The chief has the same one as a single process."""
        again = self._beginning.place.steps if self._beginning is not None and not self._ctx.is_chief else 0
        rank: int = self._ctx.rank
        return rank + self._ctx.size * again

    def _skipped(self) -> Skip | None:
        steps_per_execution = self._model.steps_per_execution
        if self._beginning is not None:
            return self._beginning.skip(self._job, steps_per_execution)
        return skip_of(self._begin, self._job, steps_per_execution)

    def fit(self) -> None:
        """Run Keras's ``fit``, with the exchange in place of the optimizer."""
        model, job, ctx, data = self._model, self._job, self._ctx, self._data
        validation = self._validation()
        self._own = own = callbacks_here(job.callbacks, ctx.is_chief, model)
        if model.jit_compile:
            model.jit_compile = False
            ctx.note("info", "XLA is not used", "jit_compile=True is ignored: XLA cannot compile exchanges")
        with ExitStack() as stack:
            if job.check and self._reducer.size > 1:
                stack.enter_context(hooked(model, train_step=clipping.watched(model, ctx)))
            stack.enter_context(
                hooked(
                    model,
                    train_step=TrainStep(model, self._sync, data.may_be_empty),
                    test_step=TestStep(model),
                )
            )
            # The averages at the end of training are computed by the servers.
            stack.enter_context(hooked(model.optimizer, finalize_variable_values=self._finalize))
            if self._goes_in_step and ctx.is_chief:
                stack.enter_context(hooked(model.optimizer, save_own_variables=self._save_optimizer))
            history = history_of(own)
            first, last = self._in_step(stack) if self._goes_in_step else self._apart(stack)
            around, self._saving = self._with_checkpoints(last, history)
            guard = guard_of(job, model, ctx, Parts(self._reducer.size), data, exact=ServedChecks().is_exact(job))
            skip = None if self._strategy.backup_workers else self._skip  # if so, it starts at the run's step
            self._fit = KerasFit(
                job, ctx, self._data, own, first=first, last=around, guard=guard, history=history, skip=skip
            )
            try:
                self._fit(model, validation)
            finally:
                if self._saving is not None:
                    self._saving.close()

    def finish(self) -> FitResult | None:
        """Report the end of training to the servers. The chief then waits for the other tasks and returns the result;
        the other tasks return None.
        """
        model, ctx = self._model, self._ctx
        place = self._last.place if isinstance(self._last, OwnLast) else None
        self._client.leave(bool(model.stop_training), moving.take(model), place)
        if not ctx.is_chief:
            self._client.close()
            return None
        weights = model.get_weights()
        counts, total, tasks = self._take_state(final=True)
        if tasks and not self._goes_in_step:
            moving.assign(model, total / tasks)
        if isinstance(self._saving, OwnSaving):
            self._saving.end()
            self._saving.close()
        if not self._goes_in_step:
            model.optimizer.finalize_variable_values(model.trainable_weights)
        if self._has_last_word():
            model.set_weights(weights)
        if self._owners is not None:
            self._owners.close()
        self._client.close()
        updates = {self._places.workers[rank]: count for rank, count in counts.items()}
        ctx.note("info", "Updates", described(updates))
        return self._fit.result(model, self._spec, {task: count.as_dict() for task, count in updates.items()})

    def _finalize(self, variables: list[Any]) -> None:
        """If tasks are in step and the optimizer keeps averages of the weights (``use_ema``), set the weights of all
        tasks and servers to these averages.

        Keras calls this at the end of training, before the last callbacks.
        """
        optimizer = self._model.optimizer
        if not self._goes_in_step or not optimizer.use_ema:
            return
        if self._ctx.is_chief:
            self._take_state()
            type(optimizer).finalize_variable_values(optimizer, variables)
        self._weights.from_chief()

    def _save_optimizer(self, store: Any) -> None:
        """Fetch the slots, then save the optimizer for a callback: between epochs, only the servers have the slots."""
        optimizer = self._model.optimizer
        self._take_state()
        type(optimizer).save_own_variables(optimizer, store)

    # -- the servers --------------------------------------------------------------------------------------------

    def _shared_with_servers(self) -> Exchange:
        """Send the chief's variables to the servers, fetch them on all tasks, and return this task's exchange."""
        model, job, client = self._model, self._job, self._client
        self._trained = variables = list(model.trainable_variables)
        pieces = pieces_of(variables, model.optimizer, len(self._places.servers), self._strategy.split_bytes)
        client.divide(pieces, wire_dtype(variables), self._strategy.sync)
        if self._ctx.is_chief:
            self._plan = Plan(pieces, len(self._places.servers), variables, model.optimizer)
            if not self._goes_in_step and self._begin is not None:
                assert self._stored is not None
                restore_checkpoint(self._begin, self._stored, model, [model.optimizer])
                self._stored = None
                self._keep_moving()
            client.build(self._plan.taken_apart(), to_plain(self._spec))
        tasks = self._ctx.size - self._strategy.backup_workers if self._strategy.sync else 1
        exchange = Exchange(
            model,
            pieces,
            client,
            may_end=self._data.ends_by_agreement,
            scaling=linear_scaling(job, tasks, self._data.length),
            meet=self._reducer.sum_tensor if self._goes_in_step else None,
            drops=self._strategy.backup_workers > 0,
        )
        exchange.assign(client.fetch())
        if self._beginning is not None and self._beginning.goes_on and not self._ctx.is_chief:
            kept = client.kept()
            if kept.size:
                moving.assign(model, kept)
        exchange.install(model.optimizer, self._ctx.is_chief)
        return exchange

    @property
    def _slots(self) -> list[Any]:
        """The optimizer's variables except the learning rate, which the chief sends with each gradient."""
        optimizer = self._model.optimizer
        return [variable for variable in optimizer.variables if variable is not optimizer._learning_rate]

    def _push_state(self) -> None:
        """Send the chief's weights and slots to the servers."""
        self._client.set_state(self._plan.taken_apart())

    def _tell_attributes(self, changed: dict[Reference, ChangedAttributes]) -> None:
        """Send the servers the attributes of the optimizer and of constraints that callbacks have changed."""
        start, model, found = len(OPTIMIZER), self._model, []
        for reference, attributes in changed.items():
            if reference[:start] == OPTIMIZER:
                found.append(ServedAttributes(reference[start:], _sendable(attributes)))
            constraint = resolved(model, reference)
            for variable, weight in enumerate(self._trained):
                if weight.constraint is not None and weight.constraint is constraint:
                    found.append(ServedAttributes((), _sendable(attributes), variable))
        if found:
            self._client.set_attributes(found, anew=bool(model.run_eagerly))

    def _take_state(self, final: bool = False) -> tuple[dict[int, Counts], Any, int]:
        """Fetch the servers' weights and slots to the chief, except the learning rate, which the chief itself sets.

        Returns each worker's counts of gradients, keyed by rank, and, if ``final``, the sum of the workers' moving
        statistics and the number of tasks in this sum.
        """
        rate = self._model.optimizer._learning_rate
        own_rate = float(rate) if isinstance(rate, keras.Variable) else None
        states, word, total = self._client.state(self._plan.shapes(), final)
        self._plan.put_together(states)
        self._told = word
        if own_rate is not None:
            rate.assign(own_rate)
        return word.updates, total, word.moving_workers

    def _at_epoch_end(self) -> None:
        """Fetch the servers' current variables for validation and callbacks, if tasks are apart."""
        if not self._ctx.is_chief:
            return
        if self._own:
            self._take_state()
        else:
            self._exchange.assign(self._client.fetch())
        self._keep_moving()

    def _keep_moving(self) -> None:
        """Store the chief's current moving statistics for workers that start later, if tasks are apart."""
        statistics = moving.take(self._model)
        if statistics.size:
            self._client.keep(statistics)

    # -- the two modes ------------------------------------------------------------------------------------------

    def _in_step(self, stack: ExitStack) -> tuple[Any, Any]:
        model, job = self._model, self._job
        self._weights = weights = ServedWeights(
            list(model.weights),
            self._slots,
            self._reducer,
            self._ctx,
            self._push_state,
            replace=self._exchange.replace,
            tell=self._tell_attributes,
        )
        between = BetweenBatches(model, weights, job.callbacks)
        average = EpochEnd(model, weights, job, between)

        def at_epoch_end() -> None:
            if self._reducer.size > 1:
                average()
            else:
                between.settle()
            if self._ctx.is_chief and self._own:
                self._take_state()

        metrics = ServedMetrics(model, self._reducer, at_epoch_end)
        stack.enter_context(between.watched())
        batch_logs = BatchLogs(model, metrics, self._reducer, job.callbacks, self._ctx)
        state = State(weights, metrics, self._sync, self._reducer, between, batch_logs=batch_logs)
        stack.enter_context(hooked(model, _get_metrics_result_or_logs=metrics))
        if self._exchange.may_end:
            model.make_train_function(force=True)
            model.train_function = until_all_data_ended(model, state)
        begin = self._begin
        done = (begin.info.step, begin.info.step_in_epoch) if begin is not None else (0, 0)
        self._last: Last = Last(state, job, self._ctx, self._data.length, done=done)
        return First(state, bool(self._own)), self._last

    def _with_checkpoints(self, last: Last, history: Any) -> tuple[list[Any], Saving | None]:
        begin, job = self._begin, self._job
        if not self._goes_in_step and not self._ctx.is_chief:
            return [last], None
        self._owners = self._written_by_servers() if self._ctx.is_chief else None
        training = Training(
            job=job,
            ctx=self._ctx,
            reducer=self._reducer if self._goes_in_step else Alone(),
            optimizers=[self._model.optimizer],
            own=self._own,
            history=history,
            length=self._data.length,
            passes=1,
            first_epoch=begin.state.first_epoch if begin is not None else job.initial_epoch,
            batch=self._spec,
            steps_of=self._data.steps_of,
            attributes=values_of(self._model),
            fetch=self._fetch_state,
            load=self._push_state if self._goes_in_step else lambda: None,
            places=self._places_of_all,
            tasks=self._ctx.size,
            owners=self._owners,
        )
        saving: Saving
        if self._goes_in_step:
            saving = Saving(training, begin, self._sync, last)
        else:
            run_step = (lambda: self._told.version) if self._strategy.backup_workers else None
            saving = OwnSaving(training, begin, self._sync, last, run_step)
        before = [Resuming(training, begin, self._stored)] if begin is not None else []
        return [*before, last, saving], saving

    def _fetch_state(self) -> None:
        self._take_state()

    def _written_by_servers(self) -> ServedParts | None:
        """Return the interface to the servers that write their parts, or None if TensorFlow cannot merge the parts.

        The chief writes the learning rate.
        """
        optimizer, parts = self._model.optimizer, self._plan.parts()
        rate = optimizer._learning_rate
        keys = {id(v): key for key, v in variables_of(self._model, [optimizer]) if v is not rate}

        def take(final: bool) -> None:
            _, self._told, _ = self._client.state([], final, stays=True)

        return ServedParts(self._places, parts, keys, take) if can_write_parts(parts) else None

    def _places_of_all(self) -> tuple[tuple[int, int, int], ...]:
        """Return the position of each task (epoch, steps within the epoch, total steps), as of the last fetch of the
        servers' state.

        Empty for synchronous training, in which all tasks are at the same step.
        """
        if self._strategy.sync:
            return ()
        return tuple((place.epoch, place.within, place.steps) for place in self._told.places)

    def _apart(self, stack: ExitStack) -> tuple[Any, Any]:
        model, job = self._model, self._job
        watches = bool(self._own) and self._ctx.is_chief
        weights = Weights(list(model.weights), Alone(), self._ctx, self._slots)
        metrics = OwnMetrics(model, Alone(), self._at_epoch_end)
        between = OwnBetween(model, weights, job.callbacks, self._ctx, self._exchange.replace)
        stack.enter_context(between.watched())
        batch_logs = BatchLogs(model, metrics, Alone(), job.callbacks, self._ctx)
        state = State(weights, metrics, self._sync, Alone(), between, batch_logs=batch_logs)
        stack.enter_context(hooked(model, _get_metrics_result_or_logs=metrics))
        following = None
        assert self._beginning is not None
        begins = self._beginning.place
        if self._strategy.backup_workers:
            model.make_train_function(force=True)
            assert self._data.length is not None
            dataset = TFDatasetAdapter(self._data.dataset, self._data.class_weight).get_tf_dataset()
            following = FollowTheRun(model, self._client, dataset, self._data.length, begins.steps)
            model.train_function = following
            # For a dataset of unknown length, Keras counts the steps of the first epoch, but this task may miss
            # some of these steps.
            known = self._data.dataset.apply(tf.data.experimental.assert_cardinality(self._data.length))
            self._data = dataclasses.replace(self._data, dataset=known)
        self._last = OwnLast(
            state,
            job,
            self._ctx,
            self._data.length,
            client=self._client,
            exchange=self._exchange,
            between=between,
            begins=begins,
            is_sync=self._strategy.sync,
            push=self._push_state if watches else None,
            following=following,
        )
        return OwnFirst(state, watches), self._last

    def _has_last_word(self) -> bool:
        return isinstance(self._last, OwnLast) and self._last.has_last_word

    def _validation(self) -> TaskData | None:
        if self._goes_in_step:
            return validation_data(self._job, self._ctx, self._reducer, self._model)
        return validation_data(self._job, self._ctx, Alone(), self._model) if self._ctx.is_chief else None


def _sendable(attributes: ChangedAttributes) -> dict[str, Any]:
    """Return changed attributes as data of messages. Raises InvalidInput for values that messages cannot contain."""
    found = {}
    for name, value in attributes.values.items():
        found[name] = value.item() if isinstance(value, np.generic) else value
        try:
            msgspec.msgpack.encode(found[name])
        except (TypeError, OverflowError):
            raise InvalidInput(
                "`callbacks` must set attributes of an optimizer or a constraint to numbers, strings or lists of them, "
                f"because they are sent to the parameter servers, got {attributes.kind}.{name} = {value!r:.200}",
                field="callbacks",
            ) from None
    return found


def described(updates: dict[str, Counts]) -> str:
    """Return a summary of the outcomes of all gradients."""
    scheduled, applied, dropped, repeated = (
        sum(getattr(count, name) for count in updates.values())
        for name in ("scheduled", "applied", "dropped", "repeated")
    )
    text = f"{scheduled} scheduled, {applied} applied, {dropped} dropped, {scheduled - applied - dropped} lost, "
    text += f"{repeated} received twice and applied once"
    late = ", ".join(f"{count.dropped} of {task}" for task, count in updates.items() if count.dropped)
    return f"{text}. Dropped: {late}" if late else text
