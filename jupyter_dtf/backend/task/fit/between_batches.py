"""Makes the other tasks follow what the caller's callbacks on the chief do between two batches.

Examples: a loss weight that increases with the steps, kernels that are clipped after each step, a call of
``model.evaluate``, which resets the metrics. Changes that callbacks make at the beginning and the end of an epoch are
detected by a checksum, which would take too long for each batch. Instead, this module records calls to Keras's
``assign`` and ``reset_state``. The tasks exchange these records only if callbacks run code between batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np

from ..model.metrics_of import all_metrics
from .callback_changes import CallbackChanges
from .equal_weights import Weights
from .job import PackedCallbacks
from .replaced_attributes import hooked


class BetweenBatches:
    """Records the assignments and resets in one task. ``begin`` is called before the callbacks, ``pause`` after them,
    ``settle`` before a step.

    A metric that callbacks reset on some tasks is reset on the others, too. This has the same effect as in a single
    process, because the tasks' metrics are added up later: what ``model.evaluate`` counts after the reset stays in the
    chief's.

    No collective runs between a step and the code that records the step as done. If another task is lost in the
    collective of ``settle``, this task therefore continues after the step.
    """

    def __init__(self, model: Any, weights: Weights, packed: PackedCallbacks) -> None:
        self._weights = weights
        self._metrics = all_metrics(model)
        self._is_needed = packed.between_batches and weights.are_shared
        self.changes = CallbackChanges(model, weights, packed)
        self._watches = False
        self._assigned: set[int] = set()
        self._reset: set[int] = set()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Inside this context, record assignments to the weights on the chief, and resets of the metrics."""
        with ExitStack() as stack:
            if self._is_needed and self._weights.reducer.rank == 0:
                for position, variable in enumerate(self._weights.variables):
                    assign = partial(self._assign, position, variable._direct_assign)
                    stack.enter_context(hooked(variable, _direct_assign=assign))
            if self._is_needed:
                for position, metric in enumerate(self._metrics):
                    reset = partial(self._reset_state, position, metric.reset_state)
                    stack.enter_context(hooked(metric, reset_state=reset))
            yield

    def begin(self) -> None:
        """Start recording, because callbacks run next."""
        self._watches = True
        self.changes.begin_batch()

    def pause(self) -> None:
        """Stop recording."""
        if self._watches:
            self.changes.pause_batch()
        self._watches = False

    @property
    def assigned(self) -> list[Any]:
        """The variables that callbacks have assigned since the last step began."""
        return [self._weights.variables[position] for position in sorted(self._assigned)]

    def settle(self) -> None:
        """Copy the chief's values of the variables that its callbacks have assigned to all other tasks, and reset the
        metrics that callbacks have reset on other tasks. A collective.
        """
        self.pause()
        if not self._is_needed:
            return
        variables = len(self._weights.variables)
        recorded = np.zeros(variables + len(self._metrics) + 1)
        recorded[[*self._assigned, *(variables + position for position in self._reset)]] = 1.0
        recorded[-1] = self.changes.are_any
        recorded = self._weights.reducer.sum(recorded)
        found = np.flatnonzero(recorded[:variables])
        if found.size:
            self._weights.some_from_chief(found.tolist())
        if recorded[-1]:
            self.changes.settle()
        for position in set(np.flatnonzero(recorded[variables:-1]).tolist()) - self._reset:
            self._metrics[position].reset_state()
        self._assigned.clear()
        self._reset.clear()

    def _assign(self, position: int, assign: Any, value: Any) -> Any:
        if self._watches:
            self._assigned.add(position)
        return assign(value)

    def _reset_state(self, position: int, reset: Any) -> Any:
        if self._watches:
            self._reset.add(position)
        return reset()
