"""The time from ``cluster.fit`` on a running cluster to the first step, compared with tasks started by hand."""

from __future__ import annotations

import statistics
import time

import jupyter_dtf as dtf

from . import by_hand, digits
from .table import Row

ROUNDS = 5
PAUSE_S = 4.0
"""The pause before each start, by hand or on the cluster, so that the end of the previous run does not affect it."""


def first_step(run: dtf.Run) -> float:
    """Return the time at which the slower task ended its first step, in seconds since the epoch."""
    points = run.metrics.query("metric == 'loss'")
    return float(points.groupby("task")["time"].min().max())


def measure() -> list[Row]:
    x, y = digits.data()
    model = digits.network()
    ours, hands = [], []
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        cluster.run(lambda _args, _ctx: None)  # wait until the cluster is up
        for _ in range(ROUNDS):
            time.sleep(PAUSE_S)
            gang = by_hand.start_gang(0)
            hands.append(max(task["first_step"] for task in gang) - gang[0]["started"])
            time.sleep(PAUSE_S)
            begin = time.time()
            run = cluster.fit(
                model, x, y, batch_size=digits.BATCH, epochs=1, threads_per_task=by_hand.THREADS, wait=False
            )
            run.wait()
            ours.append(first_step(run) - begin)
    our, hand = statistics.median(ours), statistics.median(hands)
    return [Row("submit to the end of the first step", f"{our:.2f} s", f"{hand:.2f} s", our / hand, "<=", 0.1)]
