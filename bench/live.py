"""The dashboard of a run in progress, in a real browser: how smoothly it zooms, and its CPU and memory use while idle.

It has 16 plots of 8 tasks, with 100,000 points per line and 10 new points per line per second.
"""

from __future__ import annotations

from .in_browser import seen_in_browser
from .table import Row

HOUR_S = 3600


def measure() -> list[Row]:
    seen = seen_in_browser("live")
    fps, share = seen["zoom_fps"], seen["rest_share"]
    megabytes, grown = seen["heap_bytes"] / 1e6, seen["growth_bytes_per_s"] * HOUR_S / 1e6
    live = "live dashboard, 16 plots of 8 lines of 100,000 points"
    return [
        Row(f"{live}, zooming, frames/s", f"{fps:.0f}", "", fps, ">=", 30),
        Row(f"{live}, share of a core while idle", f"{share:.0%}", "", share, "<=", 0.15),
        Row(f"{live}, growth per hour", f"{grown:+.1f} MB", f"{megabytes:.0f} MB", 1 + grown / megabytes, "<=", 1.1),
    ]
