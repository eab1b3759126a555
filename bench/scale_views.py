"""A thousand hosts, and a run and a design of 512 tasks, in a real browser: the time until each view is shown."""

from __future__ import annotations

from .in_browser import seen_in_browser
from .table import Row

_VIEWS = {
    "panel_ms": "1,000 hosts: the panel is shown",
    "dashboard_ms": "512 tasks: the dashboard opens with its plots",
    "machines_ms": "512 tasks and 1,000 hosts: the Machines tab",
    "history_ms": "512 tasks and 1,000 hosts: plots of the hosts over time",
    "designer_ms": "512 tasks: the designer opens",
    "placement_ms": "512 tasks: the designer's Placement tab",
}


def measure() -> list[Row]:
    seen = seen_in_browser("scale.spec")
    rows = [Row(name, f"{seen[key] / 1000:.2f} s", "", seen[key], "<=", 1000) for key, name in _VIEWS.items()]
    fps = seen["scrolled_fps"]
    return [*rows, Row("scrolling the Machines tab, frames/s", f"{fps:.0f}", "", fps, ">=", 30)]
