"""The data and the models that the benchmarks share: scikit-learn's digits and dense networks."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_digits

BATCH = 64


def data() -> tuple[Any, Any]:
    """(1797, 64) float32 in 0..1 and (1797,) labels."""
    x, y = load_digits(return_X_y=True)
    return (x / 16).astype(np.float32), y.astype(np.int64)


def repeated(count: int) -> tuple[Any, Any]:
    """So many examples, over and over the same."""
    x, y = data()
    numbers = np.arange(count) % len(x)
    return x[numbers], y[numbers]


WIDE = (3072, 3200)
"""Hidden layers of a network of 10 million parameters."""


def network(hidden: tuple[int, ...] = (128,)) -> Any:
    """64 inputs, the hidden layers, 10 outputs; compiled with Adam."""
    import keras

    layers = [keras.layers.Dense(units, activation="relu") for units in hidden]
    model = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    return model
