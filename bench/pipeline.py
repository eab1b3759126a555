"""How much two stages on two tasks gain when their microbatches overlap: steps per second of ``cluster.fit``.

Eight equal dense layers between the digits and their classes, half of them on each task, one thread each. A step of
``M`` microbatches takes at least ``(M + 1) / M`` of what a stage takes for the whole batch, so that eight cannot be
more than 1.78 times as fast as one.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

import jupyter_dtf as dtf

from . import digits
from .steps import steps_per_second
from .table import Row

ROUNDS = 2
LAYERS, UNITS, BATCH, STEPS = 8, 512, 8192, 12
MICROBATCHES = 8


def network() -> Any:
    """The digits, eight layers of 512, ten classes."""
    import keras

    layers = [keras.layers.Dense(UNITS, activation="relu", name=f"dense_{number}") for number in range(LAYERS + 1)]
    model = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(10, name="classes")])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.SGD(0.01), loss=loss)
    return model


def placement() -> dict[str, str]:
    """The digits and half of the layers on the first task, the rest on the second."""
    devices = {f"dense_{number}": _device(int(number > LAYERS // 2)) for number in range(LAYERS + 1)}
    return {**devices, "classes": _device(1)}


def _device(task: int) -> str:
    return f"/job:worker/task:{task}/device:CPU:0"


def measure() -> list[Row]:
    x, y = (np.tile(array, [5] + [1] * (array.ndim - 1))[:BATCH] for array in digits.data())
    model = network()

    def speed(cluster: dtf.Cluster, strategy: Any, workers: int) -> float:
        arguments: dict[str, Any] = {"batch_size": BATCH, "epochs": STEPS, "threads_per_task": 1}
        run = cluster.fit(model, x, y, strategy=strategy, jobs={"worker": workers}, **arguments, wait=False)
        return steps_per_second(run.wait(), 4)

    found: dict[str, list[float]] = {"alone": [], "one": [], "many": []}
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        for _ in range(ROUNDS):
            found["alone"].append(speed(cluster, "allreduce", 1))
            found["one"].append(speed(cluster, dtf.Pipeline(placement(), microbatches=1), 2))
            found["many"].append(speed(cluster, dtf.Pipeline(placement(), microbatches=MICROBATCHES), 2))
    alone, one, many = (statistics.median(found[name]) for name in ("alone", "one", "many"))
    what = f"pipeline of two stages, {MICROBATCHES} microbatches"
    return [
        Row(f"{what} against one", f"{many:.3g} steps/s", f"{one:.3g} steps/s", many / one, ">=", 1.65),
        Row(f"{what} against one process", f"{many:.3g} steps/s", f"{alone:.3g} steps/s", many / alone, ">=", 1.5),
    ]
