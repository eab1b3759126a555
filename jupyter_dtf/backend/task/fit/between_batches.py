"""Sends the other tasks the weights that the caller's callbacks on the chief assign between two batches.

Examples: a loss weight that increases with the steps, kernels that are clipped after each step. Changes that callbacks
make at the beginning and the end of an epoch are detected by a checksum, which would take too long for each batch.
Instead, this module records calls to Keras's ``assign``. The tasks exchange these records only if callbacks run code
between batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np

from .equal_weights import Weights
from .job import PackedCallbacks
from .replaced_attributes import hooked


class BetweenBatches:
    """Records the assignments in one task. ``begin`` is called before the callbacks, ``pause`` after them, ``settle``
    before a step.

    No collective runs between a step and the code that records the step as done. If another task is lost in the
    collective of ``settle``, this task therefore continues after the step.
    """

    def __init__(self, weights: Weights, packed: PackedCallbacks) -> None:
        self._weights = weights
        self._is_needed = packed.between_batches and weights.are_shared
        self._watches = False
        self._assigned: set[int] = set()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Inside this context, record assignments to the weights on the chief."""
        with ExitStack() as stack:
            if self._is_needed and self._weights.reducer.rank == 0:
                for position, variable in enumerate(self._weights.variables):
                    assign = partial(self._assign, position, variable._direct_assign)
                    stack.enter_context(hooked(variable, _direct_assign=assign))
            yield

    def begin(self) -> None:
        """Start recording assignments, because callbacks run next."""
        self._watches = True

    def pause(self) -> None:
        """Stop recording assignments."""
        self._watches = False

    @property
    def assigned(self) -> list[Any]:
        """The variables that callbacks have assigned since the last step began."""
        return [self._weights.variables[position] for position in sorted(self._assigned)]

    def settle(self) -> None:
        """For the variables that callbacks on the chief have assigned, copy the chief's values to all other tasks. A
        collective.
        """
        self._watches = False
        if not self._is_needed:
            return
        assigned = np.zeros(len(self._weights.variables))
        assigned[list(self._assigned)] = 1.0
        found = np.flatnonzero(self._weights.reducer.sum(assigned))
        if found.size:
            self._weights.some_from_chief(found.tolist())
        self._assigned.clear()

    def _assign(self, position: int, assign: Any, value: Any) -> Any:
        if self._watches:
            self._assigned.add(position)
        return assign(value)
