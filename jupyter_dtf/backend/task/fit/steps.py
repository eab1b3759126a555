"""Wraps a model's ``train_step`` and ``test_step``, and combines the results of its metrics over all tasks."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import keras
import numpy as np
import tensorflow as tf

# Keras 3.15: Trainer converts logs with this function; there is no public one.
from keras.src.utils.python_utils import pythonify_logs

from ....errors import InvalidInput
from ..collectives.primitive import Reducer
from .assigned_weights import Outside
from .derived_logs import DerivedLogs
from .gradient_sync import GradientSync
from .lookups import Lookups
from .losses import counted_by_examples, of_global_batch
from .metric_states import assign_total, changes, start_values, state_variables


class TrainStep:
    """A wrapper of a model's ``train_step`` that counts the examples, and takes part in steps even if this task has no
    examples.
    """

    def __init__(self, model: Any, sync: GradientSync, may_be_empty: bool) -> None:
        self._model = model
        self._sync = sync
        self._may_be_empty = may_be_empty
        self._step: Callable[[Any], Any] = model.train_step
        self._lookups = Lookups(self._step)
        self._outside = Outside(model, lambda weights, before: sync.settle(weights, before, may_be_empty), may_be_empty)
        self.last_examples = counter()
        """The number of examples in this task's share of the last batch."""
        self.derived = DerivedLogs(model)
        self._outputs: Any = None
        self._collectives: list[Callable[[], Any]] = []

    def __call__(self, data: Any) -> Any:
        examples = batch_size(data)
        self.last_examples.assign(tf.cast(examples, tf.int64))
        self._sync.begin(examples)
        if not self._may_be_empty:
            return self._full(data)
        if tf.executing_eagerly():
            return self._full(data) if int(examples) else self._empty()
        return tf.cond(examples > 0, lambda: self._full(data), self._empty)

    def _full(self, data: Any) -> Any:
        sync = self._sync
        self._lookups.begin(data)
        sync.lookups, sync.outside = self._lookups, self._outside if sync.agrees else None
        with of_global_batch(self._model, sync), counted_by_examples(self._model, sync.examples), ExitStack() as stack:
            if sync.outside is not None:
                stack.enter_context(sync.outside.watched(self._lookups.provenance))
            outputs = self._step(data)
            self.derived.note(outputs)
            if not sync.applied and not self._model.trainable_variables:
                self._model.optimizer.apply([], [])  # Keras applies nothing, but the tasks have to agree
        if not sync.applied:
            raise InvalidInput(
                "`model`: train_step must update the weights with optimizer.apply or optimizer.apply_gradients of an "
                "optimizer that is an attribute of the model, because this call averages the gradients, got a "
                f"train_step of {type(self._model).__name__} that calls neither"
            )
        if self._may_be_empty:
            graph = tf.compat.v1.get_default_graph()
            if not tf.executing_eagerly() and any(other is not graph for _, other in sync.collectives):
                raise InvalidInput(
                    "`model`: train_step must apply an optimizer at its top level if a task may get a batch without "
                    "examples, got a call inside a loop or condition. Choose a batch size that leaves every task at "
                    "least one example in the last batch, or drop the rest with dataset.batch(..., "
                    "drop_remainder=True)"
                )
            self._collectives = [take_part for take_part, _ in sync.collectives]
            self._outputs = outputs
        return outputs

    def _empty(self) -> Any:
        """Apply the other tasks' gradients, without computing or counting anything."""
        if self._outputs is None:
            raise InvalidInput("`x`: with run_eagerly=True, every task must have examples in the first step, got none")
        self._sync.outside = None  # this task makes no assignments of its own
        for take_part in self._collectives:
            take_part()
        return _results_like(self._outputs, self._model.get_metrics_result())


def _results_like(outputs: Any, known: Any) -> Any:
    """Return the structure of ``outputs`` with the results that ``known`` has under the same keys, and zeros for all
    others.
    """
    if isinstance(outputs, dict):
        known = known if isinstance(known, dict) else {}
        return {key: _results_like(value, known.get(key)) for key, value in outputs.items()}
    if isinstance(outputs, (list, tuple)):
        return type(outputs)(_results_like(value, None) for value in outputs)
    if isinstance(outputs, float):  # since Keras 3.12, if run eagerly
        return float(known or 0.0)
    if known is None or isinstance(known, dict):
        return tf.zeros([n or 0 for n in outputs.shape], outputs.dtype)
    return tf.cast(known, outputs.dtype)


class TestStep:
    """A wrapper of a model's ``test_step`` that counts the examples."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._step: Callable[[Any], Any] = model.test_step
        self.derived = DerivedLogs(model)
        self.last_examples = counter()
        """The number of examples in this task's share of the last batch."""

    def __call__(self, data: Any) -> Any:
        examples = batch_size(data)
        self.last_examples.assign(tf.cast(examples, tf.int64))
        with counted_by_examples(self._model, examples):
            outputs = self._step(data)
        self.derived.note(outputs)
        return outputs


def counter() -> tf.Variable:
    """Return a variable that a step can use as a counter on any device.

    Its type is not int32: TensorFlow 2.21 keeps int32 variables in host memory, which a step on a GPU cannot access if
    it is compiled with XLA, as it is by default in Keras.
    """
    return tf.Variable(0, dtype=tf.int64, trainable=False)


def batch_size(data: Any) -> tf.Tensor:
    """Return the number of examples in a batch: the size of its first tensor's first dimension. Shape (), int32."""
    first = next(leaf for leaf in tf.nest.flatten(data) if leaf is not None)
    if isinstance(first, tf.RaggedTensor):
        return tf.cast(first.nrows(), tf.int32)
    if isinstance(first, tf.SparseTensor):
        return tf.cast(first.dense_shape[0], tf.int32)
    return tf.shape(first)[0]


class Metrics:
    """Combines the results of metrics over all tasks at the end of an epoch or a validation run."""

    def __init__(self, model: Any, reducer: Reducer, at_epoch_end: Callable[[], None]) -> None:
        self._model = model
        self._reducer = reducer
        self._at_epoch_end = at_epoch_end
        self._original: Callable[[Any], Any] = model._get_metrics_result_or_logs
        self.validating = False
        self.before_sum: list[Any] | None = None
        """This task's own metric states at the end of an epoch, while that end is being processed."""
        self.alone = False
        """Whether callbacks are running that the other tasks do not run."""

    def __call__(self, logs: Any) -> Any:
        """Return the combined results, in place of ``model._get_metrics_result_or_logs``, which Keras calls once at the
        end of each epoch and of each validation run.
        """
        if self.alone or self._reducer.size == 1:
            return self._original(logs)
        if not self.validating:
            self._at_epoch_end()
        own = pythonify_logs(self._model.get_metrics_result())
        self._sum()
        return self.combined(logs, own, self._model.get_metrics_result(), self.derived.values())

    @property
    def derived(self) -> DerivedLogs:
        """The logs of the running kind of step that are computed from metrics."""
        step = self._model.test_step if self.validating else self._model.train_step
        return getattr(step, "derived", None) or DerivedLogs(self._model)

    def combined(self, logs: Any, own: dict[str, Any], result: Any, derived: dict[str, Any]) -> Any:
        """Return the logs of all tasks. A collective.

        ``own``: the results of this task's metrics; ``result``: those of the combined states; ``derived``: the logs
        that this task's step computes from metrics, for the combined states.
        """
        logs = pythonify_logs(logs)
        if all(self._reducer.all_gather(not logs or set(logs) == set(own))):
            return result
        # Logs of the user's train_step or test_step that are not metrics have their values from the last step, as in
        # Keras.
        step = self._model.test_step if self.validating else self._model.train_step
        given = float(step.last_examples), logs, _of_metrics(logs, own), pythonify_logs(derived)
        parts = self._reducer.all_gather(given)
        of_metrics = set.intersection(*(names for _, _, names, _ in parts))
        mean, results = _weighted_mean([(examples, told) for examples, told, _, _ in parts]), pythonify_logs(result)
        known = {name: value for name, value in results.items() if name in of_metrics}
        for *_, again in parts:  # a task that has had no step does not know of any
            known |= {name: value for name, value in again.items() if name in mean}
        return {**mean, **known}

    def _sum(self) -> None:
        """Set the metrics' states to the combined states of all tasks."""
        variables = state_variables(self._model)
        if not self.validating:
            self.before_sum = [np.asarray(v.numpy()) for v in variables if isinstance(v, keras.Variable)]
        starts = start_values(self._model, variables)
        total = self._reducer.sum(changes(variables, starts))
        assign_total(variables, starts, total, self._reducer.size)


def _of_metrics(logs: dict[str, Any], results: dict[str, Any]) -> set[str]:
    """Return the names of the logs whose values are results of this task's metrics."""
    return {
        name for name, value in logs.items() if name in results and np.allclose(value, results[name], equal_nan=True)
    }


def _weighted_mean(parts: list[tuple[float, dict[str, Any]]]) -> dict[str, float]:
    result = {}
    for name in sorted({name for _, logs in parts for name in logs}):
        values = [(weight, logs[name]) for weight, logs in parts if weight and isinstance(logs.get(name), float)]
        total = sum(weight for weight, _ in values)
        result[name] = sum(weight * value for weight, value in values) / total if total else math.nan
    return result


def shared_variables(model: Any, optimizers: list[Any]) -> list[Any]:
    """Return the variables that are equal on all tasks, except the learning rate, which is exchanged in each step."""
    found: dict[int, keras.Variable] = {}
    for variable in [*model.weights, *(v for o in optimizers for v in o.variables)]:
        found[id(variable)] = variable
    for optimizer in optimizers:
        found.pop(id(optimizer.learning_rate), None)
    return list(found.values())
