"""Compares ``cluster.fit`` with ``model.fit`` on the same generator: batches of 100 kB per second."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import jupyter_dtf as dtf

from .steps import steps_per_second
from .table import Row

ROUNDS = 3
STEPS, EXAMPLES, FEATURES = 1500, 32, 784
"""A batch has 32 images of 28 x 28, which take 100 kB."""
WARM_UP = 300


def _batches() -> Iterator[Any]:
    drawn = np.random.default_rng(0)
    pictures = drawn.random((4096, FEATURES), np.float32)
    labels = drawn.integers(0, 10, 4096)
    while True:
        chosen = drawn.integers(0, len(pictures), EXAMPLES)
        yield pictures[chosen], labels[chosen]


def _model() -> Any:
    import keras

    layers = [keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)]
    model = keras.Sequential([keras.Input((FEATURES,)), *layers])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def _alone() -> float:
    import keras

    times: list[float] = []
    told = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: times.append(time.perf_counter()))
    _model().fit(_batches(), steps_per_epoch=STEPS, verbose=0, callbacks=[told])
    return (len(times) - 1 - WARM_UP) / (times[-1] - times[WARM_UP])


def measure() -> list[Row]:
    ours: dict[int, list[float]] = {1: [], 4: []}
    alone = []
    with dtf.Cluster(jobs={"worker": 4}, threads_per_host=4) as cluster:
        for _ in range(ROUNDS):
            alone.append(_alone())
            for workers, found in ours.items():
                jobs = {"worker": workers}
                run = cluster.fit(_model(), _batches(), steps_per_epoch=STEPS, jobs=jobs, threads_per_task=1)
                found.append(steps_per_second(run, WARM_UP))
    one, four, plain = (statistics.median(each) for each in (ours[1], ours[4], alone))
    return [
        Row("a generator of 100 kB batches, one task, batches/s", f"{one:.0f}", f"{plain:.0f}", one / plain, ">=", 0.9),
        Row("the same, four tasks against one", f"{four:.0f}", f"{one:.0f}", four / one, ">=", 0.9),
    ]
