"""Batches per second of ``cluster.fit`` on a generator of 100 kB batches, compared with other ways to train.

One task is compared with ``model.fit`` on the same generator. Four tasks are compared with four tasks that have equally
many examples as arrays: on a machine with fewer cores than tasks, steps of four tasks take longer with any data source.
"""

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
"""A batch consists of 32 images of 28 x 28, or 100 kB."""
WARM_UP = 300


def _batches() -> Iterator[Any]:
    drawn = np.random.default_rng(0)
    pictures = drawn.random((4096, FEATURES), np.float32)
    labels = drawn.integers(0, 10, 4096)
    while True:
        chosen = drawn.integers(0, len(pictures), EXAMPLES)
        yield pictures[chosen], labels[chosen]


def _arrays() -> tuple[Any, Any]:
    """Return arrays with the examples of ``STEPS`` batches."""
    drawn = np.random.default_rng(0)
    return drawn.random((STEPS * EXAMPLES, FEATURES), np.float32), drawn.integers(0, 10, STEPS * EXAMPLES)


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
    one, four, four_on_arrays, alone = [], [], [], []
    x, y = _arrays()
    with dtf.Cluster(jobs={"worker": 4}, threads_per_host=4) as cluster:

        def fed(workers: int, **data: Any) -> float:
            run = cluster.fit(_model(), **data, jobs={"worker": workers}, threads_per_task=1)
            return steps_per_second(run, WARM_UP)

        for _ in range(ROUNDS):
            alone.append(_alone())
            one.append(fed(1, x=_batches(), steps_per_epoch=STEPS))
            four.append(fed(4, x=_batches(), steps_per_epoch=STEPS))
            four_on_arrays.append(fed(4, x=x, y=y, batch_size=EXAMPLES))
    return [
        _row("a generator of 100 kB batches, one task against plain Keras, batches/s", one, alone),
        _row("the same, four tasks against four tasks with arrays", four, four_on_arrays),
    ]


def _row(label: str, ours: list[float], theirs: list[float]) -> Row:
    a, b = statistics.median(ours), statistics.median(theirs)
    return Row(label, f"{a:.0f}", f"{b:.0f}", a / b, ">=", 0.9)
