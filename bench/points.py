"""The sustained rate of points from two tasks to the hub of this process, and the number of lost points."""

from __future__ import annotations

import time

import jupyter_dtf as dtf

from .table import Row

RATE = 110_000  # points/s that each task offers
SECONDS = 10


def offer(_args: object, ctx: dtf.Context) -> int:
    """Report four values per call at ``RATE`` for ``SECONDS``. Return the number of points reported."""
    import time

    calls = RATE * SECONDS // 4
    begin = time.perf_counter()
    for call in range(calls):
        ctx.report(step=call, loss=0.5, accuracy=0.9, val_loss=0.6, val_accuracy=0.8)
        if call % 250 == 0:
            ahead = begin + call * 4 / RATE - time.perf_counter()
            if ahead > 0:
                time.sleep(ahead)
    return calls * 4


def measure() -> list[Row]:
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        cluster.run(lambda _args, _ctx: None)
        run = cluster.run(offer, wait=False)
        while not run.info.started:
            time.sleep(0.01)
        begin = time.time()
        offered = sum(run.result())
        seconds = time.time() - begin
        own = run.metrics.query("metric in ['loss', 'accuracy', 'val_loss', 'val_accuracy']")
    lost = offered - len(own)
    rate = len(own) / seconds
    return [
        Row("points/s from two tasks to the hub", f"{rate:,.0f}/s", "", rate, ">=", 200_000),
        Row("points lost", str(lost), "", lost, "<=", 0),
    ]
