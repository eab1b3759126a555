"""Compares ``cluster.fit`` with a hand-written loop: steps per second of dense networks on the digits, two workers."""

from __future__ import annotations

import statistics
from typing import Any

import jupyter_dtf as dtf

from . import by_hand, digits
from .table import Row

ROUNDS = 3
STEPS = {(128,): 1000, digits.WIDE: 28}
BUCKET_BYTES = 1 << 20


def steps_per_second(run: dtf.Run, skip: int = 20) -> float:
    """Return the steps per second of the first worker, from its points without the first ``skip``."""
    times = run.metrics.query("metric == 'loss' and task == 'worker:0'")["time"].to_numpy()[skip:]
    return float((len(times) - 1) / (times[-1] - times[0]))


def _fit(cluster: dtf.Cluster, model: Any, steps: int, **strategy: Any) -> float:
    x, y = digits.data()
    run = cluster.fit(
        model,
        x,
        y,
        batch_size=digits.BATCH,
        epochs=max(1, steps // -(-len(x) // digits.BATCH)),
        threads_per_task=by_hand.THREADS,
        strategy=dtf.AllReduce(**strategy),
        wait=False,
    )
    return steps_per_second(run.wait(), skip=min(20, steps // 7))


def measure() -> list[Row]:
    rows = []
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        for hidden, steps in STEPS.items():
            model = digits.network(hidden)
            ours, hands, buckets = [], [], []
            for _ in range(ROUNDS):
                hands.append(by_hand.start_gang(steps, hidden=hidden)[0]["steps_per_second"])
                ours.append(_fit(cluster, model, steps))
                if hidden == digits.WIDE:
                    buckets.append(_fit(cluster, model, steps, fusion_bytes=BUCKET_BYTES))
            name = f"{model.count_params():,} parameters"
            rows.append(_row(f"steps/s, {name}, two workers", ours, hands, 1.3))
            if buckets:
                rows.append(_row(f"steps/s, {name}, one exchange against buckets of 1 MiB", ours, buckets, 0.9))
    return rows


def _row(what: str, ours: list[float], others: list[float], target: float) -> Row:
    our, other = statistics.median(ours), statistics.median(others)
    return Row(what, f"{our:.3g}/s", f"{other:.3g}/s", our / other, ">=", target)
