"""The metrics of a model, including those inside other metrics."""

from __future__ import annotations

from typing import Any


def all_metrics(model: Any) -> list[Any]:
    """Return the metrics of a model, and those in them: the metrics of ``compile`` are parts of one metric of Keras."""
    return [*model.metrics, *(each for m in model.metrics for each in getattr(m, "metrics", ()))]


def metric_variables(model: Any) -> list[Any]:
    """Return the state variables that Keras tracks in a model's metrics."""
    return list({id(v): v for metric in model.metrics for v in metric.variables}.values())
