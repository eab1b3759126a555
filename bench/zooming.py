"""Zooming a plot of ten million points, compared with a small plot, and with sending all points of the part."""

from __future__ import annotations

import statistics
import time

import msgspec
import numpy as np

from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.backend.records.zoomed_lines import zoomed_frames
from jupyter_dtf.schema.base import encode_json
from jupyter_dtf.schema.events import Point, Points, encode_event
from jupyter_dtf.schema.run import RunInfo

from .table import Row

METRICS = ("loss", "accuracy", "val_loss", "val_accuracy")
WIDTH = 600
PARTS = 40
_BATCH = 5000


def _hub(points: int) -> Hub:
    """Return a hub with a run that has this total number of points."""
    hub = Hub()
    hub.add_run(RunInfo(id="run", name="run", cluster="none", created=time.time()))
    encode = msgspec.msgpack.encode
    calls = points // len(METRICS)
    for seq, first in enumerate(range(0, calls, _BATCH)):
        steps = range(first, min(first + _BATCH, calls))
        data = b"".join(
            encode(Point(step, step / 1000, dict.fromkeys(METRICS, step * 7919 % 1000 / 1000))) for step in steps
        )
        event = Points(time=0.0, task="worker:0", first=first, count=len(steps), data=data)
        hub.apply("run", seq, encode_event(event))
    return hub


def _zoom(hub: Hub, points: int) -> tuple[float, float, float]:
    """Return the milliseconds and bytes of one plot, and the bytes of all points of the part.

    These are medians over parts of different sizes.
    """
    random = np.random.default_rng(0)
    calls = points // len(METRICS)
    taken, sent, plain = [], [], []
    for number in range(PARTS):
        size = calls * 10 ** -random.uniform(0, 2)
        start = random.uniform(0, calls - size)
        begin = time.perf_counter()
        metric = METRICS[number % len(METRICS)]
        frames = zoomed_frames(hub, "run", [metric], (start, start + size), width=WIDTH, x="step")
        body = encode_json(frames)
        taken.append(1000 * (time.perf_counter() - begin))
        sent.append(len(body))
        plain.append(16 * size)  # as doubles; JSON would be longer
    return statistics.median(taken), statistics.median(sent), statistics.median(plain)


def measure() -> list[Row]:
    most, few = 10_000_000, 1_000 * len(METRICS)
    own, small = _zoom(_hub(most), most), _zoom(_hub(few), few)
    return [
        Row("zooming a plot of 10 million points", f"{own[0]:.1f} ms", f"{small[0]:.1f} ms", own[0], "<=", 50),
        Row("bytes sent, against all of its points", f"{own[1]:,.0f}", f"{own[2]:,.0f}", own[1] / own[2], "<=", 0.1),
    ]
