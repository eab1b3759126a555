"""Examples per second of two workers, compared with one: a compute-bound network, with the global batch doubled."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

import jupyter_dtf as dtf

from . import digits
from .steps import steps_per_second
from .table import Row

ROUNDS = 5
BATCH = 64  # per worker
STEPS = 28


def network() -> Any:
    """Return a network with three wide convolutions for digits enlarged to 32 x 32.

    A step takes hundreds of milliseconds on one core.
    """
    import keras

    model = keras.Sequential(
        [
            keras.Input((32, 32, 1)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Conv2D(64, 3, activation="relu"),
            keras.layers.Conv2D(64, 3, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="sgd", loss=loss)
    return model


def measure() -> list[Row]:
    x, y = digits.data()
    x, y = np.tile(x, (2, 1)), np.tile(y, 2)
    images = np.kron(x.reshape(-1, 8, 8), np.ones((1, 4, 4), np.float32))[..., None]
    model = network()
    rates: dict[int, list[float]] = {1: [], 2: []}
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        for _ in range(ROUNDS):
            for workers, measured in rates.items():
                count = BATCH * workers * STEPS
                run = cluster.fit(
                    model,
                    images[:count],
                    y[:count],
                    batch_size=BATCH * workers,
                    jobs={"worker": workers},
                    threads_per_task=1,
                    wait=False,
                )
                measured.append(steps_per_second(run.wait(), skip=4) * BATCH * workers)
    one, two = statistics.median(rates[1]), statistics.median(rates[2])
    gain = statistics.median(pair[1] / pair[0] for pair in zip(rates[1], rates[2], strict=True))
    return [Row("two workers against one, convolutions", f"{two:.0f}/s", f"{one:.0f}/s", gain, ">=", 1.9)]
