"""Trains a tiny model, so that TensorFlow and Keras complete their one-time initialization in this process before the
first real training run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np

from .....schema.strategy import AllReduce
from ...model import keras_io
from ..job import Arrays, FitJob
from .training import train


class _Alone:
    """A stand-in for the Context of a task that trains alone. It has the attributes that ``train`` uses."""

    rank, size, is_chief, should_stop = 0, 1, True, False
    attempt, goes_on_from = 1, ""
    machines, tasks = ("",), ("",)
    shared_dir = Path()
    tracer, going_over, joins = None, None, False

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


def rehearse() -> None:
    """Train a small classifier for two steps, which starts TensorFlow's runtime in this process."""
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    data = Arrays(np.zeros((8, 8), np.float32), np.zeros(8, np.int64))
    train(FitJob(keras_io.pack(model), data, batch_size=4, strategy=AllReduce()), _Alone())
    keras.backend.clear_session()  # restart the numbering of names
