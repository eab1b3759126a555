"""The data and the model that the benchmarks share: scikit-learn's digits and a small dense network."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_digits

BATCH = 64


def data() -> tuple[Any, Any]:
    """(1797, 64) float32 in 0..1 and (1797,) labels."""
    x, y = load_digits(return_X_y=True)
    return (x / 16).astype(np.float32), y.astype(np.int64)


def network() -> Any:
    """64-128-10, compiled with Adam."""
    import keras

    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    return model
