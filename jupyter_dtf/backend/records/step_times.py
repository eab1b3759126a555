"""Computes how long a run's steps took, from the times that the run reported. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...schema.design import StepTimes
from .series import Series

LEFT_OUT = 4
"""The number of initial steps to skip, which include building the graph, tracing and the check of the first step."""
_METRIC = "step_seconds"


def step_times(series: Mapping[tuple[str, str], Series], parameters: Mapping[str, Any]) -> StepTimes | None:
    """Return the step times of the task that reports the most steps; None if there are too few steps.

    ``parameters`` are the parameters of the run.
    """
    found = [part for (metric, _), part in series.items() if metric == _METRIC]
    if not found:
        return None
    longest = max(found, key=len)
    value, step = longest.value, longest.step[: len(longest.value)]
    counted = value[: len(step)][(step > LEFT_OUT) & np.isfinite(value[: len(step)])]
    if not counted.size:
        return None
    low, median, high = np.quantile(counted, (0.25, 0.5, 0.75))
    batch_size = parameters.get("batch_size")
    return StepTimes(
        count=int(counted.size),
        left_out=LEFT_OUT,
        median_s=float(median),
        low_s=float(low),
        high_s=float(high),
        batch_size=batch_size if isinstance(batch_size, int) else 0,
    )
