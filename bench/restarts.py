"""A killed or frozen worker: the time until it is noticed, and when and at which step the next attempt continues.

With parameter servers, also whether the other workers slow down until the killed one is back.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from dataclasses import dataclass

import jupyter_dtf as dtf
from jupyter_dtf.schema.events import RunChanged
from jupyter_dtf.schema.run import RunState

from . import by_hand, digits
from .table import Row

ROUNDS = 3
TASKS = ("worker:0", "worker:1", "worker:2")
SKIP = 40
"""The number of steps at the beginning that are ignored, because steps are compiled there."""
EXAMPLES = 64_000
LOOK_S = 0.05
STEPS = 150
"""The number of steps before the signal is sent."""
BEFORE_S = 4.0
"""How long the other workers' updates are counted before one worker is killed."""


def measure() -> list[Row]:
    rows = []
    for workers in (2, 4):
        found = [_lost(workers, signal.SIGKILL) for _ in range(ROUNDS)]
        what = f"a killed worker of {workers}"
        rows += [
            _row(f"{what} is noticed", [each.noticed_s for each in found], 0.5),
            _row(f"{what} to the first new step", [each.step_s for each in found], 1.0),
            _count(f"{what}: steps repeated or skipped", [each.amiss for each in found]),
            _count(f"{what}: other workers in new processes", [each.moved for each in found]),
        ]
    found = [_lost(2, signal.SIGSTOP) for _ in range(ROUNDS)]
    rows.append(_row("a frozen worker of 2 is noticed", [each.noticed_s for each in found], 5))
    return [*rows, *rejoins()]


def rejoins() -> list[Row]:
    """Measure asynchronous parameter servers when one of three workers is killed."""
    what = "asynchronous, one of three workers killed"
    with dtf.Cluster(jobs={"worker": 3, "ps": 1}) as cluster:
        found = [_rejoined(cluster) for _ in range(ROUNDS)]
    before, after = (statistics.median(rates) for rates in list(zip(*found, strict=True))[:2])
    ratio = statistics.median(after / before for before, after, _ in found)
    return [
        Row(f"{what}: the others' updates/s until it is back", f"{after:.0f}/s", f"{before:.0f}/s", ratio, ">=", 1),
        _row(f"{what}: time until it is back", [seconds for *_, seconds in found], 2),
    ]


def _rejoined(cluster: dtf.Cluster) -> tuple[float, float, float]:
    """Return the updates per second of two workers before and after a third one is killed, and the seconds until the
    next step of the latter.
    """
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
        time.sleep(10 * LOOK_S)  # each query takes CPU time from the processes that are measured
    run.stop(now=True)
    run.wait()
    points = run.metrics.query("metric == 'staleness'")
    back = float(points.query("attempt == 1").time.min())
    others = points[points.task != TASKS[-1]].time
    before = ((others > killed - BEFORE_S) & (others <= killed)).sum() / BEFORE_S
    after = ((others > killed) & (others <= back)).sum() / (back - killed)
    return float(before), float(after), back - killed


@dataclass
class Loss:
    """The measurements of a run that has lost a worker."""

    noticed_s: float
    step_s: float
    amiss: int
    """The number of steps of the first worker that were done twice or skipped."""
    moved: int
    """The number of workers, apart from the lost one, that have a new process."""


def _lost(workers: int, number: signal.Signals) -> Loss:
    """Send a signal to a worker during a run without checkpoints, and return the measurements."""
    x, y = digits.repeated(EXAMPLES)
    with dtf.Cluster(jobs={"worker": workers}) as cluster:
        run = cluster.fit(
            digits.network(),
            x,
            y,
            batch_size=digits.BATCH,
            epochs=8,
            threads_per_task=by_hand.THREADS,
            checkpoint=False,
            wait=False,
        )
        while run.info.progress.done < STEPS:
            time.sleep(LOOK_S)
        before = {task.task: task.pid for task in run.info.tasks}
        begun = time.time()
        os.kill(before[f"worker:{workers - 1}"], number)
        while run.metrics.query("metric == 'loss' and attempt == 1 and task == 'worker:0'").empty:
            time.sleep(LOOK_S)
        after = {task.task: task.pid for task in run.info.tasks}
        run.stop(now=True)
        run.wait()
        events = [event for _, event in run._session.hub.events(run.id)]
        noticed = next(
            event.time for event in events if isinstance(event, RunChanged) and event.state is RunState.RESTARTING
        )
        points = run.metrics.query("metric == 'loss'")
        new = points.query("attempt == 1")
        own = points.query("task == 'worker:0'")
        last, first = own.query("attempt == 0")["step"].max(), own.query("attempt == 1")["step"].min()
        moved = sum(before[task] != after[task] for task in before) - 1
        return Loss(noticed - begun, float(new["time"].min()) - begun, int(abs(first - last - 1)), moved)


def _count(what: str, counts: list[int]) -> Row:
    return Row(what, f"{sum(counts)} in {len(counts)} rounds", "", sum(counts), "<=", 0)


def _row(what: str, seconds: list[float], target: float) -> Row:
    median = statistics.median(seconds)
    return Row(what, f"{median:.3g} s", "", median, "<=", target)
