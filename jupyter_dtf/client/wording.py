"""Defines how metrics, states and jobs are displayed, as in the panel (``src/model/format.ts``). Pure."""

from __future__ import annotations

import math
import re

from ..schema.api import ClusterInfo
from ..schema.run import RunState
from ..schema.sizes import bytes_, duration, number, seconds_

_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")

MARKS = {
    RunState.SUCCEEDED: "✓",
    RunState.FAILED: "✗",
    RunState.LOST: "✗",
    RunState.STOPPED: "■",
}


def metric_value(metric: str, value: float) -> str:
    """Return a metric's value with the unit that its name implies."""
    if not math.isfinite(value):
        return number(value)
    if metric.endswith("_bytes"):
        return bytes_(value)
    if metric.endswith("_seconds"):
        return seconds_(value)
    if metric.endswith("_per_second"):
        return f"{number(value)}/s"
    return number(math.floor(100 * value + 0.5) / 100 if metric == "cpu" else value)


def metric_title(metric: str) -> str:
    """Return a metric's name as a heading: ``examples/s``, ``step time``, ``memory``, ``CPU``."""
    if metric == "cpu":
        return "CPU"
    for ending, words in (("_per_second", "/s"), ("_bytes", ""), ("_seconds", "_time")):
        if metric.endswith(ending):
            metric = metric.removesuffix(ending) + words
            break
    return metric.replace("_", " ")


def cluster_state(info: ClusterInfo) -> str:
    """Return a cluster's state as text, such as ``running``, or ``not responding for 12 s`` if it is silent."""
    if info.silent_s:
        return f"not responding for {duration(info.silent_s)}"
    return f"{info.state.value}, incompatible" if info.incompatible else info.state.value


def jobs(counts: dict[str, int]) -> str:
    """Return the numbers of tasks as text: ``2 workers, 1 ps``."""
    plural = {job: job if count == 1 or job.endswith("s") else f"{job}s" for job, count in counts.items()}
    return ", ".join(f"{count} {plural[job]}" for job, count in counts.items())


def without_control(text: str) -> str:
    """Return text without terminal colors and other control characters, which are not allowed in documents."""
    return _CONTROL.sub("", text)
