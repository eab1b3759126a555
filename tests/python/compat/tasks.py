"""The common start of the programs in these tests, and their data."""

from __future__ import annotations

from typing import Any

import numpy as np

BATCH = 16
"""The number of examples in a step, over all tasks."""


def begin(ctx: Any) -> Any:
    """Enter the task, as a cluster does before it calls a program. Return Horovod's API, initialized."""
    import jupyter_dtf.compat.horovod as hvd
    from jupyter_dtf.backend.task.context import set_current

    set_current(ctx)
    hvd.init()
    return hvd


def numbers(examples: int = 96, seed: int = 0) -> tuple[Any, Any]:
    """Return inputs of shape (examples, 6), and classes 0 to 2 that depend on them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(examples, 6)).astype("float32")
    return x, x[:, :3].argmax(1).astype("int64")


def words(examples: int = 96, seed: int = 0) -> tuple[Any, Any]:
    """Return four of twenty words for each example, and classes 0 to 2."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 20, size=(examples, 4))
    return x, (x.sum(1) % 3).astype("int64")


def shares(data: Any, rank: int, size: int, batch: int = BATCH) -> list[Any]:
    """Return this task's share of every batch, in order. All shares have the same size."""
    part = batch // size
    starts = range(0, len(data) - batch + 1, batch)
    return [data[start + rank * part : start + (rank + 1) * part] for start in starts]


def dense() -> Any:
    import keras

    return keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(3, activation="softmax")]
    )


def embedding() -> Any:
    import keras

    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((4,), dtype="int32"),
            layers.Embedding(20, 5),
            layers.Flatten(),
            layers.Dense(3, activation="softmax"),
        ]
    )
