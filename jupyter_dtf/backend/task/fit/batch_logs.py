"""Gives the caller's callbacks the logs of the whole batch, instead of those of this task's share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

# Keras 3.15: Trainer converts logs with this function; there is no public one.
from keras.src.utils.python_utils import pythonify_logs

from ..collectives.primitive import Reducer
from .derived_logs import DerivedLogs
from .job import PackedCallbacks
from .metric_states import Vector, start_values, state_variables
from .steps import Metrics


class BatchLogs:
    """The logs of the last step in one task.

    Combining the logs takes an exchange per step, so it is done only if a callback may use them. As in Keras, they are
    means over the epoch so far.
    """

    def __init__(self, model: Any, metrics: Metrics, reducer: Reducer, packed: PackedCallbacks, ctx: Any) -> None:
        self._model = model
        self._metrics = metrics
        self._reducer = reducer
        self._is_needed = packed.batch_logs and reducer.size > 1
        self._is_read_here = bool(packed.places(ctx.is_chief))
        self._ctx = ctx
        self._states: _States | None = None
        self._has_only_metrics: bool | None = None
        """Whether all logs are results of metrics; None: not known yet. A ``train_step`` may return other values."""
        self.own: Mapping[str, Any] = {}
        """The logs of this task's share."""

    def combine(self, logs: dict[str, Any] | None) -> None:
        """Replace the values in ``logs``, a step's logs in this task, with those of all tasks. A collective.

        If other tasks are lost in it, the logs stay as they are and nothing is raised, because this task must first
        record the step as done. The next collective raises the error.
        """
        self.own = dict(logs or {})
        if not self._is_needed or logs is None:
            return
        try:
            logs.update(self._combined())
        except Exception:
            if not getattr(self._ctx, "peer_lost", False):
                raise

    def begin_anew(self) -> None:
        """Prepare for a new attempt, in which tasks may take part that have no state yet."""
        self._has_only_metrics = None

    def _combined(self) -> dict[str, Any]:
        states = self._states = self._states or _States(self._model)
        states.derived = self._metrics.derived
        total = states.start + states.share(self._reducer.size) * self._reducer.sum(states.change())
        if self._has_only_metrics is None:
            names = set(pythonify_logs(self._model.get_metrics_result()))
            self._has_only_metrics = all(self._reducer.all_gather(set(self.own) == names))
        if self._has_only_metrics:
            return states.results(total)[0] if self._is_read_here else {}
        own = pythonify_logs(self._model.get_metrics_result())
        combined: dict[str, Any] = pythonify_logs(self._metrics.combined(self.own, own, *states.results(total)))
        return combined


class _States:
    """The states of a model's metrics as one vector, which is read and written in a graph, because Keras takes about a
    millisecond for each metric that is read eagerly.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._variables = state_variables(model)
        self.derived: DerivedLogs | None = None
        starts = start_values(model, self._variables)
        self.start: Vector = np.concatenate([np.zeros(0), *(np.ravel(each) for each in starts)]).astype(np.float64)
        """The vector after a reset."""
        self._is_mean = np.concatenate(
            [
                np.zeros(0, bool),
                *(np.full(np.size(s), v.aggregation == "mean") for v, s in zip(self._variables, starts, strict=True)),
            ]
        )
        self._sizes = [np.size(each) for each in starts]
        self._shapes = [np.shape(each) for each in starts]
        self._read, self._results = self._vector, self._results_of
        if not model.run_eagerly:
            self._read = tf.function(self._vector, autograph=False)
            self._results = tf.function(self._results_of, autograph=False)

    def share(self, tasks: int) -> Vector:
        """Return the factor for the sum of the tasks' changes: 1, or 1 / ``tasks`` for a state that is a mean."""
        return np.where(self._is_mean, 1 / tasks, 1.0)

    def change(self) -> Vector:
        """Return the change in the states since the reset."""
        change: Vector = self._read().numpy() - self.start
        return change

    def results(self, vector: Vector) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the metrics' results for these states, and the logs derived from them. The states stay as they are."""
        results, derived = self._results(tf.constant(vector))
        return pythonify_logs(results), pythonify_logs(derived)

    def _vector(self) -> tf.Tensor:
        parts = [tf.reshape(tf.cast(tf.convert_to_tensor(v), tf.float64), [-1]) for v in self._variables]
        return tf.concat([tf.zeros([0], tf.float64), *parts], 0)

    def _results_of(self, vector: tf.Tensor) -> Any:
        before = [tf.identity(tf.convert_to_tensor(variable)) for variable in self._variables]
        parts = tf.split(vector, self._sizes) if self._sizes else []
        for variable, part, shape, old in zip(self._variables, parts, self._shapes, before, strict=True):
            variable.assign(tf.cast(tf.reshape(part, shape), old.dtype))
        derived = {} if self.derived is None or tf.executing_eagerly() else self.derived.again()
        results = tf.nest.map_structure(tf.identity, (self._model.get_metrics_result(), derived))
        with tf.control_dependencies(tf.nest.flatten(results)):
            for variable, old in zip(self._variables, before, strict=True):
                variable.assign(old)
        return results
