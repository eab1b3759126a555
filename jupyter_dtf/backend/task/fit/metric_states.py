"""Reads the states of metrics, and combines those of several shares of the data by adding up their changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ..model.metrics_of import all_metrics, metric_variables

Vector = npt.NDArray[np.float64]


def state_variables(model: Any) -> list[Any]:
    """Return the variables that hold the states of a model's metrics: those that Keras tracks, then others."""
    variables = metric_variables(model)
    # Keras does not track objects of the class tf.Variable.
    held = {id(v): v for metric in all_metrics(model) for v in vars(metric).values() if isinstance(v, tf.Variable)}
    return variables + [v for v in held.values() if v.dtype.is_floating or v.dtype.is_integer]


def start_values(model: Any, variables: Sequence[Any]) -> list[Any]:
    """Return the initial values that changes are added to: zeros for a sum, otherwise the values after a reset.

    Variables created by Keras's ``add_weight`` are sums. Other variables of a metric may also hold a setting.
    """
    values = [np.asarray(variable.numpy()) for variable in variables]
    if all(variable.aggregation in ("sum", "mean") for variable in variables):
        return [np.zeros_like(value) for value in values]
    for metric in model.metrics:
        metric.reset_state()
    reset = [np.asarray(variable.numpy()) for variable in variables]
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
    return [
        np.zeros_like(value) if variable.aggregation in ("sum", "mean") else start
        for variable, value, start in zip(variables, values, reset, strict=True)
    ]


def changes(variables: Sequence[Any], starts: Sequence[Any]) -> Vector:
    """Return the changes of the variables since ``starts``, as one vector."""
    values = [np.asarray(v.numpy()) for v in variables]
    each = [(a - b).ravel().astype(np.float64) for a, b in zip(values, starts, strict=True)]
    return np.concatenate([np.zeros(0), *each])


def assign_total(variables: Sequence[Any], starts: Sequence[Any], total: Vector, shares: int) -> None:
    """Set the variables to ``starts`` plus ``total``, the sum of the changes that ``shares`` shares have led to."""
    at = 0
    for variable, start in zip(variables, starts, strict=True):
        part = total[at : at + start.size].reshape(start.shape)
        at += start.size
        if variable.aggregation == "mean":
            part = part / shares
        variable.assign((start + part).astype(start.dtype))
