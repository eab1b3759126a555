"""The data and the models that the benchmarks share: scikit-learn's digits and dense networks."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_digits

BATCH = 64


def data() -> tuple[Any, Any]:
    """Return the images, (1797, 64) float32 in 0..1, and the labels, (1797,) int64."""
    x, y = load_digits(return_X_y=True)
    return (x / 16).astype(np.float32), y.astype(np.int64)


def repeated(count: int) -> tuple[Any, Any]:
    """Return ``count`` examples: the digits, repeated as often as needed."""
    x, y = data()
    numbers = np.arange(count) % len(x)
    return x[numbers], y[numbers]


WIDE = (3072, 3200)
"""The hidden layers of a network with 10 million parameters."""


def network(hidden: tuple[int, ...] = (128,)) -> Any:
    """Return a network with 64 inputs, these hidden layers and 10 outputs, compiled with Adam."""
    import keras

    layers = [keras.layers.Dense(units, activation="relu") for units in hidden]
    model = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    return model
