"""A callback that reports the steps of Keras's ``fit`` to a recorder."""

from __future__ import annotations

from typing import Any

import keras

from .trace_recorder import StepRecorder


def trace_callbacks(recorder: StepRecorder | None) -> list[Any]:
    """Return the callbacks that report steps to a recorder: one, or none if nothing is recorded."""
    return [] if recorder is None else [_TraceSteps(recorder)]


class _TraceSteps(keras.callbacks.Callback):
    """Counts steps from 1 over all epochs. Must come before callbacks that run operations of their own."""

    def __init__(self, recorder: StepRecorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._done = 0
        self._epoch_start = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch_start = self._done

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._recorder.begin(self._epoch_start + batch + 1, self.model.steps_per_execution)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._done = self._epoch_start + batch + 1
        self._recorder.end(self._done)

    def on_train_end(self, logs: Any = None) -> None:
        self._recorder.finish()
