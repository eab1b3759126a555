"""Compares the step times predicted after calibration with those of ``dtf.Pipeline``, for five models on two tasks.

Two tasks with one thread each use all of a machine with two cores: nothing else should run on it at the same time.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

import jupyter_dtf as dtf

from . import digits
from .table import Row

ROUNDS = 3
STEPS = 20
MICROBATCHES = 8


def _compiled(inputs: Any, outputs: Any, optimizer: str = "adam") -> Any:
    import keras

    model = keras.Model(inputs, outputs)
    model.compile(optimizer=optimizer, loss="mse")
    return model


def balanced() -> Any:
    """Return a model with eight dense layers of the same width."""
    import keras

    x = inputs = keras.Input((64,))
    for _ in range(8):
        x = keras.layers.Dense(1024, activation="relu")(x)
    return _compiled(inputs, keras.layers.Dense(10)(x), "sgd")


def unbalanced() -> Any:
    """Return a model with dense layers that become narrower."""
    import keras

    x = inputs = keras.Input((64,))
    for width in (2048, 1536, 1024, 512, 256, 128):
        x = keras.layers.Dense(width, activation="relu")(x)
    return _compiled(inputs, keras.layers.Dense(10)(x))


def convolutions() -> Any:
    """Return a small convolutional network for the digits' images."""
    import keras

    x = inputs = keras.Input((64,))
    x = keras.layers.Reshape((8, 8, 1))(x)
    for filters in (32, 64, 64):
        x = keras.layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    x = keras.layers.Flatten()(keras.layers.MaxPooling2D()(x))
    return _compiled(inputs, keras.layers.Dense(10)(keras.layers.Dense(128, activation="relu")(x)))


def residual() -> Any:
    """Return a model with residual blocks with batch normalization."""
    import keras

    x = inputs = keras.Input((64,))
    x = keras.layers.Dense(768)(x)
    for _ in range(4):
        y = keras.layers.Dense(768, activation="relu")(keras.layers.BatchNormalization()(x))
        x = keras.layers.Add()([x, keras.layers.Dense(768)(y)])
    return _compiled(inputs, keras.layers.Dense(10)(x))


def transformer() -> Any:
    """Return a transformer of two blocks, in which the rows of an image are a sequence."""
    import keras

    x = inputs = keras.Input((64,))
    x = keras.layers.Dense(128)(keras.layers.Reshape((16, 4))(x))
    for _ in range(2):
        y = keras.layers.LayerNormalization()(x)
        x = keras.layers.Add()([x, keras.layers.MultiHeadAttention(4, 32)(y, y)])
        y = keras.layers.Dense(512, activation="gelu")(keras.layers.LayerNormalization()(x))
        x = keras.layers.Add()([x, keras.layers.Dense(128)(y)])
    return _compiled(inputs, keras.layers.Dense(10)(keras.layers.GlobalAveragePooling1D()(x)))


MODELS: dict[str, tuple[Callable[[], Any], int]] = {
    "dense layers of one width": (balanced, 1024),
    "dense layers that become narrower": (unbalanced, 1024),
    "convolutions": (convolutions, 512),
    "residual blocks with batch normalization": (residual, 1024),
    "a transformer of two blocks": (transformer, 256),
}


def measure() -> list[Row]:
    x, labels = digits.data()
    y = np.eye(10, dtype=np.float32)[labels]
    rows = []
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        for name, (make, batch) in MODELS.items():
            model = make()
            sizes: Any = {"batch_size": batch, "microbatches": MICROBATCHES}
            count = batch * STEPS
            xs, ys = (np.resize(each, (count, *each.shape[1:])) for each in (x, y))
            predicted, measured = [], []
            for _ in range(ROUNDS):
                calibration = dtf.calibrate(model, cluster, **sizes, threads_per_task=1)
                placement = dtf.place(model, cluster, **sizes, calibration=calibration)
                found = dtf.predict(model, placement, cluster, **sizes, calibration=calibration)
                predicted.append(found.step_seconds)
                run = cluster.fit(
                    model,
                    xs,
                    ys,
                    batch_size=batch,
                    shuffle=False,
                    strategy=dtf.Pipeline(placement, microbatches=MICROBATCHES),
                    threads_per_task=1,
                )
                measured.append(_step_seconds(run))
            rows.append(_row(name, predicted, measured))
    return rows


def _step_seconds(run: dtf.Run, skip: int = 4) -> float:
    """Return the lower quartile of the first worker's step times, as in a calibration, without the first steps."""
    times = run.metrics.query("metric == 'loss' and task == 'worker:0'")["time"].to_numpy()[skip:]
    return float(np.quantile(np.diff(times), 0.25))


def _row(name: str, predicted: list[float], measured: list[float]) -> Row:
    ours, theirs = statistics.median(predicted), statistics.median(measured)
    off = abs(ours / theirs - 1)
    return Row(f"predicted step, {name}", f"{ours * 1000:.1f} ms", f"{theirs * 1000:.1f} ms", off, "<=", 0.25)
