"""What the tasks of a run have told of the parts of their steps. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from ...schema.metrics import STEP_COMPUTE, STEP_EXCHANGE, STEP_INPUT, STEP_PARTS
from .series import Series

_WHOLE = (STEP_COMPUTE, STEP_INPUT, STEP_EXCHANGE)
"""What adds up to a usual step, which writes no checkpoint."""


@dataclass(frozen=True)
class TaskParts:
    """Means over what a task has told, seconds of a step."""

    seconds: Mapping[str, float]

    def mean(self, metric: str) -> float:
        """0 of a part that is not measured."""
        return self.seconds.get(metric, 0.0)

    def share(self, metric: str) -> float | None:
        """Of a usual step, 0 to 1; None of a part that is not measured."""
        whole = sum(self.mean(part) for part in _WHOLE)
        if metric not in self.seconds:
            return None
        return self.seconds[metric] / whole if whole > 0 else 0.0


def step_parts(series: Mapping[tuple[str, str], Series], tasks: Collection[str]) -> dict[str, TaskParts]:
    """Those of ``tasks`` that have told."""
    found: dict[str, dict[str, float]] = {}
    for (metric, task), part in series.items():
        if metric in STEP_PARTS and task in tasks:
            values = part.value[np.isfinite(part.value)]
            if values.size:
                found.setdefault(task, {})[metric] = float(np.mean(values))
    return {task: TaskParts(parts) for task, parts in found.items() if STEP_COMPUTE in parts}
