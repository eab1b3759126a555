"""The time that one call of ``ctx.report`` costs the training loop."""

from __future__ import annotations

import jupyter_dtf as dtf

from .table import Row

CALLS = 100_000


def report_many(calls: int, ctx: dtf.Context) -> float:
    """Return the microseconds per call."""
    import time

    begin = time.perf_counter()
    for step in range(calls):
        ctx.report(step=step, loss=0.5, accuracy=0.9)
    return (time.perf_counter() - begin) / calls * 1e6


def measure() -> list[Row]:
    with dtf.Cluster(jobs={"worker": 1}) as cluster:
        (cost,) = cluster.run(report_many, CALLS, wait=False).result()
    return [Row("ctx.report, a call with two values", f"{cost:.1f} us", "", cost, "<=", 10)]
