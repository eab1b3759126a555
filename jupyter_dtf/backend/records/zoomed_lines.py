"""Extracts part of a run's lines for a zoomed plot, decimated to as many points as a whole line would have."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ...errors import InvalidInput
from ...schema.socket_messages import SeriesFrame
from .decimate import check_view, decimate, plain
from .hub import Hub
from .series import Floats, Series


def part_of(x: Floats, start: float, end: float) -> slice:
    """Return the slice of ``x``, shape ``[n]``, from ``start`` to ``end``, plus one point on each side.

    The slice extends from the first to the last segment of the line that touches the limits, even if no point is
    between them. If a program goes back to lower steps, the slice therefore includes all points in between.
    """
    if x.size == 0:
        return slice(0, 0)
    if bool((x[1:] >= x[:-1]).all()):
        first, last = int(np.searchsorted(x, start, side="left")), int(np.searchsorted(x, end, side="right"))
    else:
        crossing = np.flatnonzero((np.minimum(x[1:], x[:-1]) <= end) & (np.maximum(x[1:], x[:-1]) >= start))
        if not crossing.size:
            return slice(0, 0)
        return slice(int(crossing[0]), int(crossing[-1]) + 2)
    return slice(max(first - 1, 0), min(last + 1, x.size))


def zoomed_frames(
    hub: Hub, run: str, metrics: Collection[str], limits: tuple[float, float], *, width: int, x: str
) -> list[SeriesFrame]:
    """Return the lines of these metrics between two values of ``x``, each decimated for ``width`` pixels.

    They include points that later attempts replaced. Metrics that have not been reported are left out.

    Raises NotFound, and InvalidInput for an invalid width or axis, or limits that are not in order.
    """
    check_view(width, x)
    start, end = limits
    if not start < end:
        raise InvalidInput(f"`start` must be less than `end` ({end:g}), got {start:g}", field="start")

    def frame(metric: str, task: str, series: Series, replaced: str = "") -> SeriesFrame:
        values = series.value
        over = (series.step if x == "step" else series.time)[: values.size]  # the series may have grown in between
        part = part_of(over, start, end)
        kept = decimate(values[part], width)
        return SeriesFrame(metric, task, 0, plain(over[part][kept]), plain(values[part][kept]), replaced)

    whole = [frame(metric, task, series) for (metric, task), series in hub.lines(run, metrics).items()]
    again = [
        frame(metric, f"{task}, attempt {attempt + 1}", series, task)
        for (metric, task, attempt), series in hub.replaced(run, metrics).items()
    ]
    return whole + again
