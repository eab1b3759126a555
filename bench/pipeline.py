"""How much two stages on two tasks gain when their microbatches overlap: steps per second of ``cluster.fit``.

Eight equal dense layers, four on each task, one thread each. A step of ``M`` microbatches takes at least
``(M + 1) / M`` of what a stage takes for the whole batch, so that eight cannot be more than 1.78 times as fast as one.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

import jupyter_dtf as dtf

from .steps import steps_per_second
from .table import Row

ROUNDS = 3
LAYERS, UNITS, BATCH, STEPS = 8, 1024, 1024, 24
MICROBATCHES = 8


def network() -> Any:
    """Eight dense layers as wide as the input."""
    import keras

    layers = [keras.layers.Dense(UNITS, activation="relu", name=f"dense_{number}") for number in range(LAYERS)]
    model = keras.Sequential([keras.Input((UNITS,)), *layers])
    model.compile(optimizer=keras.optimizers.SGD(0.01), loss="mse")
    return model


def placement() -> dict[str, str]:
    """The first half of the layers on the first task."""
    return {f"dense_{number}": f"/job:worker/task:{2 * number // LAYERS}/device:CPU:0" for number in range(LAYERS)}


def measure() -> list[Row]:
    examples = np.random.default_rng(0).normal(size=(BATCH * STEPS, UNITS)).astype(np.float32)
    model = network()

    def speed(cluster: dtf.Cluster, strategy: Any, jobs: dict[str, int]) -> float:
        run = cluster.fit(
            model, examples, examples, batch_size=BATCH, shuffle=False, strategy=strategy, jobs=jobs, threads_per_task=1
        )
        return steps_per_second(run, skip=4)

    found: dict[str, list[float]] = {"alone": [], "one": [], "many": []}
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        for _ in range(ROUNDS):
            found["alone"].append(speed(cluster, "allreduce", {"worker": 1}))
            found["one"].append(speed(cluster, dtf.Pipeline(placement(), microbatches=1), {"worker": 2}))
            found["many"].append(speed(cluster, dtf.Pipeline(placement(), microbatches=MICROBATCHES), {"worker": 2}))
    alone, one, many = (statistics.median(found[name]) for name in ("alone", "one", "many"))
    what = f"pipeline of two stages, {MICROBATCHES} microbatches"
    return [
        Row(f"{what} against one", f"{many:.3g} steps/s", f"{one:.3g} steps/s", many / one, ">=", 1.65),
        Row(f"{what} against one process", f"{many:.3g} steps/s", f"{alone:.3g} steps/s", many / alone, ">=", 1.5),
    ]
