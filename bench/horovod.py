"""Steps per second of a Horovod program, compared with the same loop under ``MultiWorkerMirroredStrategy``.

The program is a loop with ``DistributedGradientTape`` on two workers. It trains a small network and one with 10 million
parameters on the digits.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import jupyter_dtf as dtf

from . import by_hand, digits
from .table import Row

ROUNDS = 3
SIZES = {"digits": ((128,), 1000), "10 million parameters": (digits.WIDE, 28)}
"""The hidden layers and the number of steps, keyed by label."""


def train(size: tuple[tuple[int, ...], int], ctx: dtf.Context) -> float:
    """Return this task's steps per second."""
    import tensorflow as tf

    import jupyter_dtf.compat.horovod as hvd

    hidden, steps = size
    hvd.init()
    x, y = digits.data()
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shard(hvd.size(), hvd.rank()).cache().shuffle(len(x))
    iterator = iter(dataset.repeat().batch(digits.BATCH // hvd.size()).prefetch(4))
    model = digits.network(hidden)
    optimizer, loss_fn = model.optimizer, model.loss
    optimizer.build(model.trainable_variables)
    hvd.broadcast_variables([*model.variables, *optimizer.variables], root_rank=0)

    @tf.function
    def step(batches: Any) -> Any:
        images, labels = next(batches)
        with tf.GradientTape() as tape:
            loss = loss_fn(labels, model(images, training=True))
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    for _ in range(by_hand.WARM_UP_STEPS):
        step(iterator)
    begin = time.perf_counter()
    for _ in range(steps):
        loss = step(iterator)
    float(loss)
    return steps / (time.perf_counter() - begin)


def measure() -> list[Row]:
    rows = []
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        for what, (hidden, steps) in SIZES.items():
            ours, hands = [], []
            for _ in range(ROUNDS):
                hands.append(by_hand.start_gang(steps, hidden=hidden)[0]["steps_per_second"])
                run = cluster.run(train, (hidden, steps), threads_per_task=by_hand.THREADS, wait=False)
                ours.append(run.result()[0])
            our, hand = statistics.median(ours), statistics.median(hands)
            rows.append(Row(f"steps/s, Horovod's tape, {what}", f"{our:.3g}/s", f"{hand:.3g}/s", our / hand, ">=", 1.0))
    return rows
