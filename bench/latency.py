"""The time from ``ctx.report`` to the plot in a browser: 1,000 points/s, in the dashboard of a real JupyterLab.

The program reports the time, and the page records when its plot shows which of these times. A point counts as shown
when the first frame with this point, or with a later one, has been drawn.
"""

from __future__ import annotations

from itertools import pairwise

from .in_browser import seen_in_browser
from .table import Row


def percentile_99(frames: list[tuple[float, float]]) -> float:
    """Return the 99th percentile of the latencies of all points, in seconds.

    ``frames``: (time drawn, time shown), oldest first. Points are reported at a constant rate, so those that a frame
    adds are spread evenly between the time that the previous frame showed and its own.
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
