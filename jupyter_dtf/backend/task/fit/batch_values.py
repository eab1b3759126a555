"""Derives the values of individual batches from Keras's logs.

The logs are means over the epoch so far, and are reset at the start of the next epoch. A ``keras.metrics.Mean`` holds a
sum and a count: between two steps, the increase of the sum divided by the increase of the count is the batch's own
mean, to the precision of the float32 sum. This holds for the loss and for all metrics that are means (accuracy, mae).
Other metrics either have no meaningful value for one batch, such as AUC, or this value cannot be derived from their
state. They are reported as running values of the epoch (``running_auc``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import keras
import tensorflow as tf

from ....schema.metrics import RUNNING
from .replaced_attributes import hooked

_LOOKS = 8
"""The number of steps at the start of training in which each log is compared with the mean that it is assumed to be,
because a ``train_step`` may return any values.
"""
_LIKE = 1e-4


def metrics_by_log(model: Any) -> dict[str, Any]:
    """Return the metric behind each log of a built model, keyed by the log's name in ``get_metrics_result``. Empty if a
    user-defined metric computes with another metric's result.
    """
    stands: dict[str, Any] = {}
    with ExitStack() as stack:
        for metric in _leaves(model.metrics):
            stack.enter_context(hooked(metric, result=lambda metric=metric: _Stand(metric)))
        try:
            stands = model.get_metrics_result()
        except Exception:  # a user-defined metric that computes with another metric's result
            return {}
    return {name: stand.metric for name, stand in stands.items() if isinstance(stand, _Stand)}


def is_mean(metric: Any) -> bool:
    """Return whether a metric's result is exactly its sum divided by its count."""
    return isinstance(metric, keras.metrics.Mean) and type(metric).result is keras.metrics.Mean.result


class _Stand:
    """A placeholder for a metric's result."""

    def __init__(self, metric: Any) -> None:
        self.metric = metric


def _leaves(metrics: Sequence[Any]) -> list[Any]:
    """Return the metrics. Containers of metrics, such as the one that ``compile`` creates, are replaced with their
    metrics.
    """
    found: list[Any] = []
    for metric in metrics:
        parts = getattr(metric, "metrics", None)
        found += _leaves(parts) if isinstance(parts, (list, tuple)) else [metric]
    return found


class BatchValues:
    """Computes the values to report from a step's logs.

    ``counts``: a function that returns the counts of the means, keyed by the log's name; None: the counts are read from
    the metrics' variables.
    """

    def __init__(self, model: Any, counts: Callable[[], Mapping[str, float]] | None = None) -> None:
        self._model = model
        self._counts = counts
        self._metrics: dict[str, Any] | None = None
        self._means: dict[str, Any] = {}
        self._handles: dict[str, tuple[Any, Any]] = {}
        self._before: dict[str, tuple[float, float]] = {}
        self._looks = _LOOKS if counts is None else 0

    def begin_epoch(self) -> None:
        """Prepare for a new epoch, after Keras has reset the metrics."""
        self._before.clear()

    def go_on(self) -> None:
        """Prepare to start in the middle of an epoch, after the metrics have been restored."""
        for name, metric in metrics_by_log(self._model).items():
            if is_mean(metric) and (mean := _result(metric)) is not None:
                count = float(metric.count.numpy())
                self._before[name] = mean * count, count

    def __call__(self, logs: Mapping[str, Any]) -> dict[str, float]:
        """Return each metric's value over the batches since the last call, keyed by its log name (with the prefix
        ``running_`` if it is known only for the epoch so far). Metrics that these batches did not update are omitted.
        """
        if self._metrics is None:
            self._metrics = self._find(logs)
        if self._looks:
            self._look(logs)
        counts = self._read() if self._counts is None else self._counts()
        found: dict[str, float] = {}
        for name, value in logs.items():
            if not isinstance(value, float):
                continue
            count = counts.get(name)
            if count is None:
                found[RUNNING + name if name in self._metrics else name] = value
                continue
            before, total = self._before.get(name, _NOTHING), value * count
            self._before[name] = total, count
            if count < before[1]:
                before = _NOTHING  # a callback has reset the metric
            if count != before[1] or math.isnan(value):
                new = count - before[1]
                found[name] = (total - before[0]) / new if new and before[1] else value
        return found

    def _find(self, logs: Mapping[str, Any]) -> dict[str, Any]:
        metrics = metrics_by_log(self._model)
        if self._counts is None:
            known = {id(metric) for name, metric in metrics.items() if name in logs}
            others = [metric for metric in _leaves(self._model.metrics) if id(metric) not in known]
            for name in logs.keys() - metrics.keys():  # the user's train_step chooses its own names
                metric = next((metric for metric in others if _result(metric) == logs[name]), None)
                if metric is not None:
                    metrics[name] = metric
            self._means = {name: metric for name, metric in metrics.items() if is_mean(metric) and name in logs}
            self._handles = {
                name: (metric.count._value.handle, metric.count._value.dtype) for name, metric in self._means.items()
            }
        return metrics

    def _look(self, logs: Mapping[str, Any]) -> None:
        """Discard the means that differ from their logs, because such logs are already the values of the step."""
        assert self._metrics is not None
        self._looks -= 1
        for name, metric in list(self._means.items()):
            value, mean = logs.get(name), _result(metric)
            if isinstance(value, float) and mean is not None and abs(value - mean) > _LIKE * abs(mean):
                del self._means[name], self._handles[name], self._metrics[name]

    def _read(self) -> dict[str, float]:
        """Return the counts of the means. They are read directly from the variables, because reading through Keras
        takes three times as long.
        """
        read = tf.raw_ops.ReadVariableOp
        return {name: float(read(resource=handle, dtype=dtype)) for name, (handle, dtype) in self._handles.items()}


_NOTHING = (0.0, 0.0)


def _result(metric: Any) -> float | None:
    try:
        return float(metric.result())
    except (TypeError, ValueError):  # not a number, or never updated
        return None
