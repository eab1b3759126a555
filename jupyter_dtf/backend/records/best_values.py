"""Finds the best values of a run's metrics, if it is known whether higher or lower values are better. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ...schema.events import AnyEvent, EpochEnded, last_epochs
from ...schema.metrics import VALIDATION, direction
from ...schema.run import Best
from .series import Series

MOST = 16
"""The maximum number of metrics of a run that have best values, including losses."""
_FIRST = ("loss", VALIDATION + "loss")


class BestValues:
    """A run's best values: over its epochs or, for metrics without epoch values, over all points at the end."""

    def __init__(self) -> None:
        self._found: dict[str, Best] = {}
        self._attempt = 0

    def of_epochs(self, newest: EpochEnded, events: Sequence[AnyEvent]) -> dict[str, Best]:
        """Return the best values after the epoch ``newest``, keyed by metric.

        ``events``: all events so far, including ``newest``. If an epoch was repeated, its last values are used.
        """
        if newest.attempt > self._attempt:
            self._attempt, self._found = newest.attempt, {}
            for event in last_epochs(events):
                self._take(event)
        elif newest.attempt == self._attempt:
            self._take(newest)
        return dict(self._found)

    def of_points(self, headline: Mapping[str, str], series: Mapping[str, Mapping[str, Series]]) -> dict[str, Best]:
        """Return the best values at the end of a run, keyed by metric.

        ``headline`` maps each metric to show first to the metric that contains its values; ``series`` has each metric's
        series, keyed by task.
        """
        found = dict(self._found)
        for name, metric in headline.items():
            if name in found or not (sign := direction(name)):
                continue
            for part in series.get(metric, {}).values():
                values = np.where(np.isfinite(part.value), sign * part.value, -np.inf)
                at = int(np.argmax(values)) if values.size else 0
                if values.size and np.isfinite(values[at]):
                    best = Best(value=float(part.value[at]), step=float(part.step[at]))
                    if name not in found or sign * best.value > sign * found[name].value:
                        found[name] = best
        return found

    def _take(self, event: EpochEnded) -> None:
        for metric, value in event.logs.items():
            sign = direction(metric)
            if not sign or not math.isfinite(value):
                continue
            known = self._found.get(metric)
            if known is None and len(self._found) >= MOST and not self._gives_way_to(metric):
                continue
            if known is None or sign * value > sign * known.value:
                self._found[metric] = Best(value=value, step=float(event.step), epoch=event.epoch + 1)

    def _gives_way_to(self, metric: str) -> bool:
        """Drop another metric in favor of this one, if this one is a loss. Return whether this one can be added."""
        if metric not in _FIRST:
            return False
        del self._found[next(name for name in reversed(self._found) if name not in _FIRST)]
        return True
