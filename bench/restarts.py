"""A worker that is killed or frozen: when that is known, and when the next attempt makes its first step."""

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
EXAMPLES = 64_000
LOOK_S = 0.05


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
    return rows


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
