"""Parameter servers: asynchronous updates per second, compared with a hand-written ``ClusterCoordinator`` loop, and the
time of a synchronous step with a slow worker and a backup worker.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import jupyter_dtf as dtf

from . import coordinator_by_hand, digits
from .table import Row

ROUNDS = 3
UPDATES = 2000
DELAY_S = 0.2
SYNC_EPOCHS = 4
SKIP = 40
"""The number of points at the beginning that are ignored, because steps are compiled there."""


def measure() -> list[Row]:
    return [asynchronous(), backup_worker()]


def asynchronous() -> Row:
    """Measure updates per second: digits, two workers and one ``ps``, with one thread each."""
    ours, hands = [], []
    steps = -(-len(digits.data()[0]) // digits.BATCH)
    with dtf.Cluster(jobs={"worker": 2, "ps": 1}) as cluster:
        for _ in range(ROUNDS):
            hands.append(coordinator_by_hand.updates_per_second(UPDATES))
            run = cluster.fit(
                digits.network(),
                everything,
                epochs=UPDATES // 2 // steps,
                strategy="ps",
                threads_per_task=1,
            )
            ours.append(_updates_per_second(run))
    our, hand = statistics.median(ours), statistics.median(hands)
    return Row(
        "asynchronous updates/s, digits, two workers, one ps", f"{our:.0f}/s", f"{hand:.0f}/s", our / hand, ">=", 1
    )


def everything(ctx: dtf.Context) -> Any:
    """Return all digits, for each worker, in batches of the same size as in the other program."""
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(digits.data()).cache().shuffle(2000).batch(digits.BATCH).prefetch(4)


def _updates_per_second(run: dtf.Run) -> float:
    """Return the updates per second of all workers together, while all of them train."""
    points = run.metrics.query("metric == 'loss'")
    times = [group["time"].to_numpy()[SKIP:] for _, group in points.groupby("task")]
    begin, end = max(t[0] for t in times), min(t[-1] for t in times)
    return float(sum(((t > begin) & (t <= end)).sum() for t in times) / (end - begin))


def backup_worker() -> Row:
    """Measure seconds per step with three workers, one of them slow and one backup, compared with two workers that are
    not slow.
    """
    x, y = digits.data()
    slowed: list[float] = []
    alone: list[float] = []
    with dtf.Cluster(jobs={"worker": 3, "ps": 1}) as cluster:
        for _ in range(ROUNDS):
            for seconds, workers, backup in ((alone, 2, 0), (slowed, 3, 1)):
                run = cluster.fit(
                    digits.network(),
                    x,
                    y,
                    batch_size=digits.BATCH * workers,
                    epochs=SYNC_EPOCHS * workers,
                    strategy=dtf.ParameterServer(sync=True, backup_workers=backup),
                    jobs={"worker": workers, "ps": 1},
                    threads_per_task=1,
                    callbacks=[_slow_one()] if backup else [],
                )
                seconds.append(_seconds_per_step(run))
    with_it, without = statistics.median(slowed), statistics.median(alone)
    return Row(
        f"synchronous step, one of three slowed by {DELAY_S * 1e3:.0f} ms, one backup worker",
        f"{with_it * 1e3:.2f} ms",
        f"{without * 1e3:.2f} ms",
        with_it / without,
        "<=",
        1.2,
    )


def _seconds_per_step(run: dtf.Run) -> float:
    points = run.metrics.query("metric == 'loss' and task == 'worker:0'").iloc[SKIP:]
    return float(
        (points["time"].iloc[-1] - points["time"].iloc[0]) / (points["step"].iloc[-1] - points["step"].iloc[0])
    )


def _slow_one() -> Any:
    import keras

    class Slow(keras.callbacks.Callback):
        run_on_all_tasks = True

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if dtf.rank() == 2:
                time.sleep(DELAY_S)

    return Slow()
