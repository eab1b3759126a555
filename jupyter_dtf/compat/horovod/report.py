"""Reports the metrics and the progress of Keras training that was not started by ``cluster.fit``."""

from __future__ import annotations

import time
from typing import Any

from ...backend.task.context import current

PROGRESS_PERIOD_S = 0.2


def numbers(logs: dict[str, Any] | None) -> dict[str, float]:
    """Return the logs that are numbers, as floats."""
    return {name: float(value) for name, value in (logs or {}).items() if isinstance(value, (int, float))}


def step_of(model: Any) -> int:
    """Return the number of batches that the optimizer has processed, including those before its state was restored."""
    return int(model.optimizer.iterations)


class Progress:
    """Reports the progress of ``fit`` a few times per second, based on the batch counts in a callback's ``params``."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def batch_ended(self, epoch: int, batch: int, params: dict[str, Any]) -> None:
        steps = params.get("steps") or 0
        epochs = params.get("epochs") or 1
        now = time.monotonic()
        if now >= self._next_s or batch + 1 == steps:
            self._next_s = now + PROGRESS_PERIOD_S
            current().progress(epoch * steps + batch + 1, steps * epochs, "step", epoch + 1, epochs)
