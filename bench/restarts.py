"""A worker that is killed or frozen: when that is known, and when the next attempt makes its first step. With parameter
servers, whether the others slow down meanwhile.
"""

from __future__ import annotations

import os
import signal
import statistics
import time

import jupyter_dtf as dtf
from jupyter_dtf.schema.events import RunChanged
from jupyter_dtf.schema.run import RunState

from . import by_hand, digits
from .table import Row

ROUNDS = 3
TASKS = ("worker:0", "worker:1", "worker:2")
SKIP = 40
"""Steps at the beginning that do not count: there a step is compiled."""
EXAMPLES = 64_000
LOOK_S = 0.05
BEFORE_S = 4.0
"""For so long the updates of the others are counted before one of them is killed."""


def measure() -> list[Row]:
    rows = []
    for workers in (2, 4):
        found = [_lost(workers, signal.SIGKILL) for _ in range(ROUNDS)]
        rows += [
            _row(f"a killed worker of {workers} is noticed", [noticed for noticed, _ in found], 0.5),
            _row(f"a killed worker of {workers} to the first new step", [step for _, step in found], 1.5),
        ]
    found = [_lost(2, signal.SIGSTOP) for _ in range(ROUNDS)]
    rows.append(_row("a frozen worker of 2 is noticed", [noticed for noticed, _ in found], 5))
    return [*rows, *rejoins()]


def rejoins() -> list[Row]:
    """Asynchronous parameter servers, one of three workers killed."""
    what = "asynchronous, one of three workers killed"
    with dtf.Cluster(jobs={"worker": 3, "ps": 1}) as cluster:
        found = [_rejoined(cluster) for _ in range(ROUNDS)]
    before, after = (statistics.median(rates) for rates in list(zip(*found, strict=True))[:2])
    ratio = statistics.median(after / before for before, after, _ in found)
    return [
        Row(f"{what}: the others' updates/s until it is back", f"{after:.0f}/s", f"{before:.0f}/s", ratio, ">=", 1),
        _row(f"{what}: it is back", [seconds for *_, seconds in found], 2),
    ]


def _rejoined(cluster: dtf.Cluster) -> tuple[float, float, float]:
    """Updates per second of two workers before and after a third one is killed, and seconds until its next step."""
    x, y = digits.repeated(EXAMPLES)
    run = cluster.fit(
        digits.network(), x, y, batch_size=3 * digits.BATCH, epochs=100, strategy="ps", threads_per_task=1, wait=False
    )
    while run.metrics.query("metric == 'staleness'").groupby("task").step.max().reindex(TASKS).fillna(0).min() < SKIP:
        time.sleep(LOOK_S)
    time.sleep(BEFORE_S)
    (victim,) = [task.pid for task in run.info.tasks if task.task == TASKS[-1]]
    killed = time.time()
    os.kill(victim, signal.SIGKILL)
    while run.metrics.query("metric == 'staleness' and attempt == 1").empty:
        time.sleep(10 * LOOK_S)  # whoever looks takes time from those who are measured
    run.stop(now=True)
    run.wait()
    points = run.metrics.query("metric == 'staleness'")
    back = float(points.query("attempt == 1").time.min())
    others = points[points.task != TASKS[-1]].time
    before = ((others > killed - BEFORE_S) & (others <= killed)).sum() / BEFORE_S
    after = ((others > killed) & (others <= back)).sum() / (back - killed)
    return float(before), float(after), back - killed


def _lost(workers: int, number: signal.Signals) -> tuple[float, float]:
    """Seconds from a signal to a worker in the middle of a training until it is noticed, and until a new step."""
    x, y = digits.repeated(EXAMPLES)
    with dtf.Cluster(jobs={"worker": workers}) as cluster:
        run = cluster.fit(
            digits.network(),
            x,
            y,
            batch_size=digits.BATCH,
            epochs=8,
            threads_per_task=by_hand.THREADS,
            checkpoint=dtf.Checkpoint(every_steps=100),
            wait=False,
        )
        while not run.checkpoints:
            time.sleep(LOOK_S)
        (victim,) = [task.pid for task in run.info.tasks if task.task == f"worker:{workers - 1}"]
        begun = time.time()
        os.kill(victim, number)
        while run.metrics.query("metric == 'loss' and attempt == 1").empty:
            time.sleep(LOOK_S)
        run.stop(now=True)
        run.wait()
        events = [event for _, event in run._session.hub.events(run.id)]
        noticed = next(
            event.time for event in events if isinstance(event, RunChanged) and event.state is RunState.RESTARTING
        )
        points = run.metrics.query("metric == 'loss' and attempt == 1")
        return noticed - begun, float(points["time"].min()) - begun


def _row(what: str, seconds: list[float], target: float) -> Row:
    median = statistics.median(seconds)
    return Row(what, f"{median:.3g} s", "", median, "<=", target)
