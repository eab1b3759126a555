"""Skips steps, with backup workers: a task that falls behind continues at the run's step and position in the data."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..input_time import timed
from .server_client import Client


class FollowTheRun:
    """A replacement for Keras's train function that makes a task take part in the run's current step, not its own next
    step.

    Batches of missed steps are skipped, so that every task is at the same position in the data, and an epoch ends for
    all tasks when the run's epoch ends. The dataset contains all epochs.
    """

    def __init__(
        self, model: Any, client: Client, dataset: tf.data.Dataset, steps_per_epoch: int, done: int = 0
    ) -> None:
        """Create the function. ``done``: the run's step at which the first epoch and the dataset begin."""
        self._model = model
        self._run = timed(model.train_function)
        self._client = client
        self._batches = iter(dataset)
        self._steps_per_epoch = steps_per_epoch
        self._position = done
        self._epoch_end = done
        self._has_seen_any = False

    def begin_epoch(self) -> None:
        self._epoch_end += self._steps_per_epoch
        self._has_seen_any = False

    @property
    def epoch_end(self) -> int:
        """The run's step at which the epoch ends."""
        return self._epoch_end

    @property
    def step(self) -> int:
        """The number of steps of the run so far."""
        return self._client.answered.version

    def __call__(self, iterator: Any) -> Any:
        """Take part in the run's next step. Raises StopIteration at the end of an epoch.

        Keras's ``iterator`` is not used, because Keras creates another one for the next epoch if this one ends early.
        """
        step = self.step
        if step >= self._epoch_end:
            if not self._has_seen_any:
                self._look_at_the_last()
            raise StopIteration
        self._has_seen_any = True
        self._pass_over_until(step)
        self._position += 1
        return self._run(self._batches)

    def _pass_over_until(self, step: int) -> None:
        while self._position < step:
            next(self._batches)
            self._position += 1

    def _look_at_the_last(self) -> None:
        """Compute the metrics on the last batch if other tasks have taken all steps of the epoch without this one."""
        self._pass_over_until(self._epoch_end - 1)
        self._position += 1
        self._model.make_test_function()
        self._model.test_function(self._batches)
