"""The parts of steps, such as computing, input and exchange, that the tasks of a run have reported. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from ...schema.metrics import STEP_COMPUTE, STEP_EXCHANGE, STEP_INPUT, STEP_PARTS
from .series import Series

_WHOLE = (STEP_COMPUTE, STEP_INPUT, STEP_EXCHANGE)
"""The parts that add up to a step without a checkpoint."""


@dataclass(frozen=True)
class TaskParts:
    """The means of the step parts that a task has reported, in seconds per step, keyed by metric."""

    seconds: Mapping[str, float]

    def mean(self, metric: str) -> float:
        """Return the mean of a part; 0 if it was not measured."""
        return self.seconds.get(metric, 0.0)

    def share(self, metric: str) -> float | None:
        """Return a part's fraction of a step without a checkpoint, from 0 to 1; None if it was not measured."""
        whole = sum(self.mean(part) for part in _WHOLE)
        if metric not in self.seconds:
            return None
        return self.seconds[metric] / whole if whole > 0 else 0.0


def step_parts(series: Mapping[tuple[str, str], Series], tasks: Collection[str]) -> dict[str, TaskParts]:
    """Return the step parts of those ``tasks`` that have reported them, keyed by task."""
    found: dict[str, dict[str, float]] = {}
    for (metric, task), part in series.items():
        if metric in STEP_PARTS and task in tasks:
            values = part.value[np.isfinite(part.value)]
            if values.size:
                found.setdefault(task, {})[metric] = float(np.mean(values))
    return {task: TaskParts(parts) for task, parts in found.items() if STEP_COMPUTE in parts}
