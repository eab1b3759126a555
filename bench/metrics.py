"""Runs with many metrics in a real browser: the time until one is shown, and how smoothly the crosshair moves.

The first run has 500 metrics of two tasks; the second has 16 plots of eight lines of 20,000 points.
"""

from __future__ import annotations

from .in_browser import seen_in_browser
from .table import Row


def measure() -> list[Row]:
    seen = seen_in_browser("metrics")
    opened, drawn, fps = seen["opened_ms"] / 1000, seen["drawn_ms"] / 1000, seen["hovered_fps"]
    stuck = f"never blocked for more than {seen['longest_ms']:.0f} ms"
    return [
        Row("500 metrics: all names and headings are shown", f"{opened:.2f} s", stuck, opened, "<=", 1),
        Row("500 metrics: the first plots are drawn", f"{drawn:.2f} s", "", drawn, "<=", 3),
        Row("crosshair on 16 plots of 8 lines of 20,000 points, frames/s", f"{fps:.0f}", "", fps, ">=", 50),
    ]
