"""The gain from overlapping microbatches in two stages on two tasks: seconds per step of ``cluster.fit``.

The model has sixteen equal dense layers between the digits and their classes, half of them on each task, with one
thread per task. They have 500 units: with 512, the rows of a matrix compete for the same places in the cache when
TensorFlow multiplies the few hundred rows of a microbatch (docs/pipeline.md). A stage sends gradients back before it
computes those of its weights. A step with a single microbatch therefore takes 5/3 of the time that a stage needs for
the whole batch. With eight microbatches and one forward, one backward, a step takes 25/24 of that time, so eight
microbatches can be 1.6 times as fast as one, and 1.92 times as fast as one process. Fill and drain takes 26/24 of that
time, so one forward, one backward is 1.04 times as fast.

Other programs on the machine only make steps longer, above all steps that need both cores. Therefore the lower quartile
of the step times is used.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

import jupyter_dtf as dtf

from . import digits, pipeline_by_hand
from .table import Row

ROUNDS = 3
LAYERS, UNITS, BATCH, STEPS, SKIPPED = 16, 500, 4096, 24, 4
MICROBATCHES = 8
LIMIT = 5 / 3 / (25 / 24)
"""How many times as fast as one microbatch eight microbatches can be."""


def network() -> Any:
    """Return a network for the digits: a first layer with 64 inputs, sixteen layers of 500 units, and ten classes."""
    import keras

    layers = [keras.layers.Dense(UNITS, activation="relu", name=f"dense_{number}") for number in range(LAYERS + 1)]
    model = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(10, name="classes")])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.SGD(0.01), loss=loss)
    return model


def placement() -> dict[str, str]:
    """Return the devices of the layers: the first layer and half of the others on the first task, the rest on the
    second.
    """
    devices = {f"dense_{number}": _device(_stage(number)) for number in range(LAYERS + 1)}
    return {**devices, "classes": _device(1)}


def _stage(layer: int) -> int:
    return int(layer > LAYERS // 2)


def _device(task: int) -> str:
    return f"/job:worker/task:{task}/device:CPU:0"


def measure() -> list[Row]:
    x, y = digits.repeated(BATCH)
    model = network()

    def steps(cluster: dtf.Cluster, strategy: Any, workers: int) -> list[float]:
        arguments: dict[str, Any] = {"batch_size": BATCH, "epochs": STEPS, "threads_per_task": 1}
        run = cluster.fit(model, x, y, strategy=strategy, jobs={"worker": workers}, **arguments, wait=False)
        points = run.wait().metrics.query("metric == 'loss' and task == 'worker:0'")
        return list(np.diff(points["time"].to_numpy()))[SKIPPED:]

    found: dict[str, list[float]] = {"hand": [], "alone": [], "one": [], "filled": [], "many": []}
    by_hand = [UNITS] * (LAYERS + 1) + [10], [_stage(number) for number in range(LAYERS + 1)] + [1]
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        for _ in range(ROUNDS):
            found["hand"] += pipeline_by_hand.seconds_of_steps(*by_hand, BATCH, STEPS)[SKIPPED:]
            found["alone"] += steps(cluster, "allreduce", 1)
            found["one"] += steps(cluster, dtf.Pipeline(placement(), microbatches=1), 2)
            for name, schedule in (("filled", "fill_drain"), ("many", "1f1b")):
                pipeline = dtf.Pipeline(placement(), microbatches=MICROBATCHES, schedule=schedule)
                found[name] += steps(cluster, pipeline, 2)
    seconds = {name: statistics.quantiles(each, n=4)[0] for name, each in found.items()}
    what = f"pipeline of two stages, {MICROBATCHES} microbatches"
    against = {
        "filled": ("fill and drain", 1.05),
        "one": ("one microbatch", LIMIT * 0.96),
        "hand": ("layers placed by hand", 1.4),
        "alone": ("one process", 1.5),
    }
    return [
        Row(
            f"{what} against {other}",
            f"{seconds['many'] * 1e3:.0f} ms",
            f"{seconds[name] * 1e3:.0f} ms",
            seconds[name] / seconds["many"],
            ">=",
            target,
        )
        for name, (other, target) in against.items()
    ]
