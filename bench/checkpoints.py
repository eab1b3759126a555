"""The cost of checkpoints: steps per second with a checkpoint every hundred steps, compared with none. Two workers."""

from __future__ import annotations

import statistics

import jupyter_dtf as dtf

from . import by_hand, digits
from .steps import steps_per_second
from .table import Row

ROUNDS = 3
EVERY, STEPS = 100, 320


def _fit(cluster: dtf.Cluster, checkpoint: dtf.Checkpoint | bool) -> dtf.Run:
    x, y = digits.repeated(STEPS * digits.BATCH)
    run = cluster.fit(
        digits.network(digits.WIDE),
        x,
        y,
        batch_size=digits.BATCH,
        threads_per_task=by_hand.THREADS,
        checkpoint=checkpoint,
        wait=False,
    )
    return run.wait()


def measure() -> list[Row]:
    with_, without = [], []
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        for _ in range(ROUNDS):
            without.append(steps_per_second(_fit(cluster, False)))
            run = _fit(cluster, dtf.Checkpoint(every_steps=EVERY))
            with_.append(steps_per_second(run))
            written = run.checkpoints
    ours, other = statistics.median(with_), statistics.median(without)
    size = f"{written[-1].bytes >> 20} MiB"
    what = f"steps/s, 10 million parameters, a checkpoint ({size}) every {EVERY} steps against none"
    return [Row(what, f"{ours:.3g}/s", f"{other:.3g}/s", ours / other, ">=", 0.97)]
