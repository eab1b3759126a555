"""Averages and checks weights at the end of an epoch, and ends an epoch when no task has more data."""

from __future__ import annotations

from typing import Any

from .between_batches import BetweenBatches
from .callbacks import State
from .equal_weights import Weights
from .job import FitJob


class EpochEnd:
    """A callable that runs between the last step of an epoch and the epoch's validation. It averages the weights that
    each task computes from its own examples, and checks that all tasks have the same weights.
    """

    def __init__(self, model: Any, weights: Weights, job: FitJob, between: BetweenBatches) -> None:
        self._moving = list(model.non_trainable_weights)
        self._weights = weights
        self._between = between
        self._epoch = job.initial_epoch

    def begin(self, epoch: int) -> None:
        """Set the number of the epoch that ends next."""
        self._epoch = epoch

    def __call__(self) -> None:
        self._between.settle()
        self._weights.average_moving(self._moving)
        self._weights.check(self._epoch)
        self._epoch += 1


def until_all_data_ended(model: Any, state: State) -> Any:
    """Wrap Keras's train function so that it ends the epoch after the step in which no task had examples."""
    run = model.train_function

    def train_function(iterator: Any) -> Any:
        if state.data_ended:
            raise StopIteration
        before = state.sync.steps
        logs = run(iterator)
        state.data_ended = state.sync.data_ended
        if state.data_ended and state.sync.steps == before:  # an execution may have started with examples
            raise StopIteration
        return logs

    return train_function
