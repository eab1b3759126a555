"""How much two stages on two tasks gain when their microbatches overlap: seconds of a step of ``cluster.fit``.

Sixteen equal dense layers between the digits and their classes, half of them on each task, one thread each. A stage
sends derivatives back before it computes those of its weights, so that a step of a single microbatch takes 5/3 of what
a stage takes for the whole batch. With one forward, one backward in turn, a step of eight takes 25/24 of it: eight can
be 1.6 times as fast as one, and 1.92 times as fast as one process. Filling and draining takes 26/24, so the schedule
alone makes one forward, one backward 1.04 times as fast.

What else runs on the machine makes steps longer, never shorter, and those that need both cores more often: the faster
quarter counts.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

import jupyter_dtf as dtf

from . import digits, pipeline_by_hand
from .table import Row

ROUNDS = 3
LAYERS, UNITS, BATCH, STEPS, SKIPPED = 16, 512, 4096, 24, 4
MICROBATCHES = 8
LIMIT = 5 / 3 / (25 / 24)
"""How much faster than one microbatch eight can be."""


def network() -> Any:
    """The digits, sixteen layers of 512 (and one more, of 64 inputs), ten classes."""
    import keras

    layers = [keras.layers.Dense(UNITS, activation="relu", name=f"dense_{number}") for number in range(LAYERS + 1)]
    model = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(10, name="classes")])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.SGD(0.01), loss=loss)
    return model


def placement() -> dict[str, str]:
    """The digits and half of the layers on the first task, the rest on the second."""
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
