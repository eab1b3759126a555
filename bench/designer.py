"""A design with 10,000 layers in a real browser: the time until it responds, and how smoothly it moves."""

from __future__ import annotations

from .in_browser import seen_in_browser
from .table import Row


def measure() -> list[Row]:
    seen = seen_in_browser("designer")
    opened = seen["opened_ms"] / 1000
    placed = f"a dropped layer appears after {seen['placed_ms']:.0f} ms"
    return [
        Row("10,000 layers: open and responsive", f"{opened:.2f} s", f"{seen['shown']} nodes drawn", opened, "<=", 3),
        Row(
            "10,000 layers: panning the graph, frames/s", f"{seen['panned_fps']:.0f}", "", seen["panned_fps"], ">=", 30
        ),
        Row(
            "10,000 layers: dragging a layer, frames/s",
            f"{seen['dragged_fps']:.0f}",
            placed,
            seen["dragged_fps"],
            ">=",
            30,
        ),
    ]
