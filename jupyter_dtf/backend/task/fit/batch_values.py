"""What each batch adds to Keras's logs, which are means over the epoch so far and jump where the next one begins.

A ``keras.metrics.Mean`` holds a sum and a count: from one step to the next, what the sum has gained over what the count
has gained is the batch's own mean, as exact as the sum's float32. That is so for the loss and for all metrics that are
means of something (accuracy, mae). Other metrics have no value of one batch, as AUC, or none that their state gives
away: they are reported as what they are, running values of the epoch (``running_auc``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import keras
import tensorflow as tf

from ....schema.metrics import RUNNING
from .hooked import hooked

_LOOKS = 8
"""For so many steps it is seen whether a log is the mean that it seems to be: a train_step may return anything."""
_LIKE = 1e-4


def metrics_by_log(model: Any) -> dict[str, Any]:
    """The metric whose result each of a built model's logs is, as ``get_metrics_result`` names them."""
    stands: dict[str, Any] = {}
    with ExitStack() as stack:
        for metric in _leaves(model.metrics):
            stack.enter_context(hooked(metric, result=lambda metric=metric: _Stand(metric)))
        try:
            stands = model.get_metrics_result()
        except Exception:  # one of the user's own, which computes something
            return {}
    return {name: stand.metric for name, stand in stands.items() if isinstance(stand, _Stand)}


def is_mean(metric: Any) -> bool:
    """Whether a metric's result is its sum divided by its count, and nothing else."""
    return isinstance(metric, keras.metrics.Mean) and type(metric).result is keras.metrics.Mean.result


class _Stand:
    """Stands for the result of a metric."""

    def __init__(self, metric: Any) -> None:
        self.metric = metric


def _leaves(metrics: Sequence[Any]) -> list[Any]:
    """Metrics and those that they are made of, as ``compile``'s are, without the collections."""
    found: list[Any] = []
    for metric in metrics:
        parts = getattr(metric, "metrics", None)
        found += _leaves(parts) if isinstance(parts, (list, tuple)) else [metric]
    return found


class BatchValues:
    """Makes of a step's logs what is reported of it. ``counts``: those of the means, by log; None: their variables'."""

    def __init__(self, model: Any, counts: Callable[[], Mapping[str, float]] | None = None) -> None:
        self._model = model
        self._counts = counts
        self._metrics: dict[str, Any] | None = None
        self._means: dict[str, Any] = {}
        self._handles: dict[str, tuple[Any, Any]] = {}
        self._before: dict[str, tuple[float, float]] = {}
        self._looks = _LOOKS if counts is None else 0

    def begin_epoch(self) -> None:
        """Keras has emptied the metrics."""
        self._before.clear()

    def go_on(self) -> None:
        """The metrics have been given what they were in the middle of an epoch."""
        for name, metric in metrics_by_log(self._model).items():
            if is_mean(metric) and (mean := _result(metric)) is not None:
                count = float(metric.count.numpy())
                self._before[name] = mean * count, count

    def __call__(self, logs: Mapping[str, Any]) -> dict[str, float]:
        """The values of the batches since the last call. A metric that none of them has changed is left out."""
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
                before = _NOTHING  # a callback has emptied it
            if count != before[1] or math.isnan(value):
                new = count - before[1]
                found[name] = (total - before[0]) / new if new and before[1] else value
        return found

    def _find(self, logs: Mapping[str, Any]) -> dict[str, Any]:
        metrics = metrics_by_log(self._model)
        if self._counts is None:
            known = {id(metric) for name, metric in metrics.items() if name in logs}
            others = [metric for metric in _leaves(self._model.metrics) if id(metric) not in known]
            for name in logs.keys() - metrics.keys():  # a train_step of the user's has names of its own
                metric = next((metric for metric in others if _result(metric) == logs[name]), None)
                if metric is not None:
                    metrics[name] = metric
            self._means = {name: metric for name, metric in metrics.items() if is_mean(metric) and name in logs}
            self._handles = {
                name: (metric.count._value.handle, metric.count._value.dtype) for name, metric in self._means.items()
            }
        return metrics

    def _look(self, logs: Mapping[str, Any]) -> None:
        """Forget means that are not what is logged: then that is the step's own value already."""
        assert self._metrics is not None
        self._looks -= 1
        for name, metric in list(self._means.items()):
            value, mean = logs.get(name), _result(metric)
            if isinstance(value, float) and mean is not None and abs(value - mean) > _LIKE * abs(mean):
                del self._means[name], self._handles[name], self._metrics[name]

    def _read(self) -> dict[str, float]:
        """A read of the variable itself: Keras's own way there takes three times as long, at every step."""
        read = tf.raw_ops.ReadVariableOp
        return {name: float(read(resource=handle, dtype=dtype)) for name, (handle, dtype) in self._handles.items()}


_NOTHING = (0.0, 0.0)


def _result(metric: Any) -> float | None:
    try:
        return float(metric.result())
    except (TypeError, ValueError):  # not a number, or never updated
        return None
