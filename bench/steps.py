"""Steps per second of ``cluster.fit`` against the hand-written loop: digits, a small dense network, two workers."""

from __future__ import annotations

import statistics

import jupyter_dtf as dtf

from . import by_hand, digits
from .table import Row

ROUNDS = 3
STEPS = 1000


def steps_per_second(run: dtf.Run, skip: int = 20) -> float:
    """Of one task, from its points, without the first ``skip``."""
    times = run.metrics.query("metric == 'loss' and task == 'worker:0'")["time"].to_numpy()[skip:]
    return float((len(times) - 1) / (times[-1] - times[0]))


def measure() -> list[Row]:
    x, y = digits.data()
    model = digits.network()
    epochs = STEPS // -(-len(x) // digits.BATCH)
    ours, hands = [], []
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        for _ in range(ROUNDS):
            hands.append(by_hand.start_gang(STEPS)[0]["steps_per_second"])
            run = cluster.fit(
                model, x, y, batch_size=digits.BATCH, epochs=epochs, threads_per_task=by_hand.THREADS, wait=False
            )
            ours.append(steps_per_second(run.wait()))
    our, hand = statistics.median(ours), statistics.median(hands)
    return [Row("steps/s, digits, two workers", f"{our:.0f}/s", f"{hand:.0f}/s", our / hand, ">=", 1.0)]
