"""From ``ctx.report`` to the plot in a browser: 1,000 points/s, a real JupyterLab, a real dashboard.

The program reports the clock; the page notes when its plot shows which clock. A point is on the plot when the first
frame that holds it, or a later point, has been drawn.
"""

from __future__ import annotations

from itertools import pairwise

from .in_browser import seen_in_browser
from .table import Row


def percentile_99(frames: list[tuple[float, float]]) -> float:
    """Of the latency of every point, in seconds. ``frames``: (time drawn, clock shown), oldest first.

    Points were reported at an even rate, so those that a frame brought are spread evenly from the clock of the frame
    before it to its own.
    """
    latencies = []
    for (_, before), (drawn, shown) in pairwise(frames):
        count = round((shown - before) * 1000)
        latencies += [drawn - (before + (index + 1) * (shown - before) / count) for index in range(count)]
    return sorted(latencies)[int(len(latencies) * 0.99)]


def measure() -> list[Row]:
    frames = seen_in_browser("latency")
    p99 = percentile_99(frames) * 1000
    return [Row("report to plot, 99th percentile, 1,000 points/s", f"{p99:.0f} ms", "", p99, "<=", 250)]
