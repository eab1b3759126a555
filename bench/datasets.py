"""Compares passing a ``tf.data.Dataset`` with a function that creates each task's part in the task. Two workers."""

from __future__ import annotations

import statistics
from typing import Any

import jupyter_dtf as dtf

from . import digits
from .steps import steps_per_second
from .table import Row

ROUNDS = 5
EPOCHS, REPEATED = 4, 10
LEAST = 0.98


def pipeline(batch: int, part: int = 0, parts: int = 1) -> Any:
    """Return a dataset of batches with one part of the digits, shuffled and mapped example by example."""
    import tensorflow as tf

    x, y = digits.data()
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shard(parts, part).repeat(REPEATED)
    dataset = dataset.shuffle(1000, seed=1).map(lambda x, y: (tf.sqrt(x + 1) - 1, y))
    return dataset.batch(batch, drop_remainder=True).prefetch(2)


def own_part(ctx: dtf.Context) -> Any:
    return pipeline(digits.BATCH // ctx.size, ctx.rank, ctx.size)


def measure() -> list[Row]:
    passed: list[float] = []
    made: list[float] = []
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        model = digits.network()
        for _ in range(ROUNDS):
            for data, rates in ((own_part, made), (pipeline(digits.BATCH), passed)):
                run = cluster.fit(model, data, epochs=EPOCHS, threads_per_task=1, wait=False)
                rates.append(steps_per_second(run.wait()))
    our, other = statistics.median(passed), statistics.median(made)
    return [
        Row("steps/s, a passed tf.data.Dataset", f"{our:.3g}/s", f"{other:.3g}/s by function", our / other, ">=", LEAST)
    ]
