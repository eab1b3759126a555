"""A callback that reports the steps of Keras's ``fit`` to a tracer."""

from __future__ import annotations

from typing import Any

import keras

from .tracer import Tracer


def trace_callbacks(tracer: Tracer | None, done: int = 0) -> list[Any]:
    """Return the callbacks that report the steps of ``fit`` to a tracer, or an empty list without a tracer.

    ``done`` is the number of steps in the epochs before the one with which ``fit`` begins.
    """
    return [] if tracer is None else [_TraceSteps(tracer, done)]


class _TraceSteps(keras.callbacks.Callback):
    """Counts steps from 1 over all epochs. Must come before callbacks that run operations of their own."""

    def __init__(self, tracer: Tracer, done: int) -> None:
        super().__init__()
        self._tracer = tracer
        self._done = self._epoch_start = done

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch_start = self._done

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._tracer.begin(self._epoch_start + batch + 1, self.model.steps_per_execution)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._done = self._epoch_start + batch + 1
        self._tracer.end(self._done)

    def on_train_end(self, logs: Any = None) -> None:
        self._tracer.finish()
