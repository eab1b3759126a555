"""The list of ten thousand runs in a real browser, compared with a plain table of equally many rows."""

from __future__ import annotations

from .in_browser import seen_in_browser
from .table import Row


def measure() -> list[Row]:
    seen = seen_in_browser("history")
    opened, filtered, grouped = seen["opened_ms"], seen["filtered_ms"], seen["grouped_ms"]
    plain, hidden = f"{seen['plain_ms']:.0f} ms", f"{seen['hidden_ms']:.0f} ms"
    slowest = f"{filtered:.0f} ms, at most {seen['slowest_filter_ms']:.0f} ms"
    return [
        Row("All Runs opens with 10,000 runs, ms", f"{opened:.0f} ms", plain, opened, "<=", 1000),
        Row("All Runs filters 10,000 runs, ms", slowest, hidden, filtered, "<=", 100),
        Row("All Runs groups 10,000 runs, longest time, ms", f"{grouped:.0f} ms", "", grouped, "<=", 1000),
    ]
