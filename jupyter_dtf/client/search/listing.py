"""Lists the trials of a search as lines of text: the running trials and the best ones, as many as fit."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

from ...errors import DtfError
from ...schema.sizes import duration, number
from ..wording import without_control
from .trials import Trial

_COLUMN = 14
"""The maximum number of characters to show of a value."""


def table(
    trials: Sequence[Trial], metrics: Sequence[str], params: Sequence[str], best: Collection[int], most: int
) -> list[str]:
    """Return a table of at most ``most`` of ``trials``, with a header. The trials in ``best`` are marked.

    Running trials come first, then the others, best first. ``best`` contains trial numbers.
    """
    running = [trial for trial in trials if trial.state == "running"]
    others = [trial for trial in trials if trial.state not in ("running", "waiting")]
    head = ["", "#", "state", *metrics, *params, "time"]
    rows = [_row(trial, metrics, params, trial.number in best) for trial in [*running, *others][:most]]
    if not rows:
        return []
    widths = [max(map(len, cells)) for cells in zip(head, *rows, strict=True)]
    text = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in [head, *rows]]
    left = len(running) + len(others) - len(rows)
    return [*text, *([f"   and {left} more"] if left else [])]


def _row(trial: Trial, metrics: Sequence[str], params: Sequence[str], is_best: bool) -> list[str]:
    values: dict[str, Any] = dict(trial.values)
    seconds = trial.seconds
    if trial.state == "running" and trial.run is not None:
        try:
            info = trial.run.info
        except DtfError:  # the run is no longer known
            info = None
        if info is not None:
            values = {metric: info.latest[metric] for metric in metrics if metric in info.latest}
            seconds = time.time() - info.started if info.started else None
    return [
        "*" if is_best else "",
        str(trial.number),
        trial.state,
        *(_shown(values.get(metric)) for metric in metrics),
        *(_shown(trial.params.get(name)) for name in params),
        "" if seconds is None else duration(seconds),
    ]


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(value)
    return without_control(f"{value!s:.{_COLUMN}}")
