"""How numbers, times and states read, as in the panel (``src/model/format.ts``). Pure."""

from __future__ import annotations

import math
import re

from ..schema.run import RunState
from ..schema.sizes import bytes_

_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")

MACHINE_METRICS = ("cpu", "memory_bytes")
"""Metrics of the machine rather than of the model."""
SPEED_METRICS = ("learning_rate", "examples_per_second", "step_seconds")
"""Metrics that say how the training goes rather than how well; shown after the model's own."""

MARKS = {
    RunState.SUCCEEDED: "✓",
    RunState.FAILED: "✗",
    RunState.LOST: "✗",
    RunState.STOPPED: "■",
}


def number(value: float) -> str:
    """Four significant digits: ``0.0312``, ``12.5k``, ``3e-05``."""
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "∞" if value > 0 else "-∞"
    for limit, scale, suffix in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= limit:
            return f"{value / scale:.3g}{suffix}"
    return f"{value:.4g}"


def duration(seconds: float) -> str:
    """``41 s``, ``1m 12s``, ``2h 05m``, ``3d 04h``."""
    whole = max(0, round(seconds))
    minutes, hours = whole // 60, whole // 3600
    if whole < 60:
        return f"{whole} s"
    if minutes < 60:
        return f"{minutes}m {whole % 60:02}s"
    return f"{hours}h {minutes % 60:02}m" if hours < 24 else f"{hours // 24}d {hours % 24:02}h"


def metric_value(metric: str, value: float) -> str:
    """A metric's value with its unit, which its name tells."""
    if metric.endswith("_bytes"):
        return bytes_(value)
    if metric.endswith("_per_second"):
        return f"{number(value)}/s"
    if metric.endswith("_seconds"):
        return f"{number(value * 1000)} ms" if abs(value) < 1 else f"{number(value)} s"
    return number(value)


def metric_title(metric: str) -> str:
    """A metric's name as a heading: ``examples/s``, ``step time``."""
    return {"examples_per_second": "examples/s", "step_seconds": "step time", "memory_bytes": "memory"}.get(
        metric, metric.replace("_", " ")
    )


def jobs(counts: dict[str, int]) -> str:
    """``2 worker, 1 ps``."""
    return ", ".join(f"{count} {job}" for job, count in counts.items())


def without_control(text: str) -> str:
    """Text without terminal colours and other control characters, which no document may hold."""
    return _CONTROL.sub("", text)
