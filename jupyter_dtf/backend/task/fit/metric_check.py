"""Finds metrics whose results depend on how a batch is divided into shares, for the check of the first step."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import tensorflow as tf

# Keras 3.15: Trainer converts logs with this function; there is no public one.
from keras.src.utils.python_utils import pythonify_logs

from .metric_states import assign_total, changes, start_values, state_variables
from .repeated_step import RepeatedStep, Values
from .steps import batch_size

MOST_SHARES = 16
"""Metrics are not compared if a batch would have to be divided into more shares."""


@dataclass(frozen=True)
class Differing:
    """A metric with different results on a whole batch and on its shares."""

    name: str
    """The name of its log."""
    whole: Any
    by_share: Any


def differing_metrics(
    step: RepeatedStep, names: Collection[str], batch: Any, before: Values, limit: float
) -> list[Differing]:
    """Return those of the metrics in ``names`` whose results on the shares of ``batch`` differ from those on the whole.
    Changes the variables of ``step``.

    The last examples are ignored if the shares would not be equal otherwise: a metric that is a mean over its batch is
    then the mean over its shares, too.

    Args:
        step: The step to repeat.
        names: The names of the metrics' logs.
        batch: A global batch.
        before: The values of ``step.variables`` before the step.
        limit: The largest difference, relative to the largest number of a result, that is attributed to rounding.
    """
    count = step.parts.count
    examples = int(batch_size(batch)) // count * count
    divisors = [number for number in range(2, MOST_SHARES + 1) if count % number == 0]
    if not examples or not divisors:
        return []
    even = tf.nest.map_structure(lambda leaf: None if leaf is None else leaf[:examples], batch)
    step.assign(before)
    step.model.reset_metrics()
    before = step.values()
    step.measure(even, 0, count)
    whole = pythonify_logs(step.model.get_metrics_result())
    _take_shares(step, even, before, divisors[0])
    by_share = pythonify_logs(step.model.get_metrics_result())
    differing = (Differing(name, whole.get(name), by_share.get(name)) for name in names)
    return [each for each in differing if not _is_equal(each.whole, each.by_share, limit)]


def _take_shares(step: RepeatedStep, batch: Any, before: Values, groups: int) -> None:
    """Give the model's metrics the state that they have after ``groups`` tasks, or one client in turn, have processed
    equal shares of a batch.
    """
    states = state_variables(step.model)
    starts = start_values(step.model, states)
    position = step.position()
    total = np.zeros_like(changes(states, starts))
    current = before
    for first, last in pairwise(range(0, step.parts.count + 1, step.parts.count // groups)):
        step.assign(before)
        if step.parts.in_turn:
            for variable in states:
                variable.assign(current[position[id(variable)]])
        step.measure(batch, first, last)
        current = step.values()
        total = total + changes(states, starts)
    if not step.parts.in_turn:
        assign_total(states, starts, total, groups)


def _is_equal(whole: Any, by_share: Any, limit: float) -> bool:
    if whole is None or by_share is None:
        return whole is by_share
    largest = max(np.max(np.abs(each), initial=0.0, where=np.isfinite(each)) for each in (whole, by_share))
    return bool(np.allclose(whole, by_share, rtol=0, atol=limit * largest, equal_nan=True))
