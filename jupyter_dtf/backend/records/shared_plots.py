"""Decimated series of one metric for one plot width, computed and encoded once for all viewers."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

from ...schema.base import encode_json
from ...schema.socket_messages import SeriesFrame, SeriesMessage
from .decimate import MIN_WIDTH, SeriesCursor, check_view
from .hub import Hub
from .series import Series

FRESH_S = 0.08
"""How long a result is reused for other viewers, in seconds."""
_KEPT = 50
"""A viewer that is at most this many versions behind is sent only the changes; any other is sent everything."""

_MOST_POINTS = 40_000
"""The approximate limit on the points in all tasks' lines of a metric.

With 512 tasks, a plot shows their mean and range, for which coarse lines suffice.
"""

_Line = tuple[str, str, int | None]
"""A line of a plot: its metric, its task, and its attempt if a later attempt replaced these points (otherwise None)."""


class Plot:
    """The versioned contents of a plot of one metric of a run, for one width and one kind of x axis. Thread-safe."""

    def __init__(self, hub: Hub, run: str, metric: str, width: int, x: str) -> None:
        """Raises InvalidInput for an invalid width or axis."""
        check_view(width, x)
        self._hub = hub
        self._run, self._metric = run, metric
        self._width, self._x = width, x
        self._lock = threading.Lock()
        self._version = 0
        self._made = float("-inf")
        self._made_of = -1  # the run's next sequence number when the contents were computed
        self._cursors: dict[_Line, SeriesCursor] = {}
        self._points: dict[_Line, tuple[list[float | None], list[float | None]]] = {}
        self._changes: deque[dict[_Line, int]] = deque(maxlen=_KEPT)  # one per version: line -> start of its change
        self._encoded: dict[int, list[bytes]] = {}  # frames, keyed by the version that they update

    def since(self, version: int) -> tuple[int, list[bytes], bool]:
        """Return the plot's version, the encoded frames that update it from ``version``, and whether it is up to date.

        Version 0 is an empty plot. If the plot is not up to date with the run's events, call again.
        """
        with self._lock:
            if time.monotonic() - self._made >= FRESH_S or version == self._version:
                self._advance()
            newest = self._hub.record(self._run).next_seq == self._made_of
            if version == self._version:
                return version, [], newest
            if version not in self._encoded:
                self._encoded[version] = [encode_json(frame) for frame in self._frames(version)]
            return self._version, self._encoded[version], newest

    def _advance(self) -> None:
        changed: dict[_Line, int] = {}
        self._made_of = self._hub.record(self._run).next_seq
        lines: dict[_Line, Series] = {}
        for (metric, task), series in self._hub.lines(self._run, [self._metric]).items():
            lines[metric, task, None] = series
        again: dict[_Line, Series] = {
            (metric, task, attempt): series
            for (metric, task, attempt), series in self._hub.replaced(self._run, [self._metric]).items()
        }
        known = sum(task != "" for _metric, task, _attempt in lines)
        each = width_of_each(self._width, max(known, len(self._hub.info(self._run).tasks)))
        for line, series in {**lines, **again}.items():
            cursor = self._cursors.get(line)
            if cursor is None:
                width = each if line[1] else self._width
                cursor = self._cursors[line] = SeriesCursor(line[0], line[1], width, self._x)
            if (frame := cursor.next(series)) is not None:
                x, y = self._points.setdefault(line, ([], []))
                x[frame.start :], y[frame.start :] = frame.x, frame.y
                changed[line] = frame.start
        self._made = time.monotonic()
        if changed:
            self._version += 1
            self._changes.append(changed)
            self._encoded.clear()

    def _frames(self, version: int) -> list[SeriesFrame]:
        behind = self._version - version
        starts: dict[_Line, int] = {}
        if version == 0 or behind > len(self._changes):
            starts = dict.fromkeys(self._points, 0)
        else:
            for changed in list(self._changes)[-behind:]:
                for line, start in changed.items():
                    starts[line] = min(start, starts.get(line, start))
        return [
            SeriesFrame(
                metric=line[0],
                task=line[1] if line[2] is None else f"{line[1]}, attempt {line[2] + 1}",
                start=start,
                x=self._points[line][0][start:],
                y=self._points[line][1][start:],
                replaced="" if line[2] is None else line[1],
            )
            for line, start in starts.items()
        ]


def width_of_each(width: int, tasks: int) -> int:
    """Return the width in pixels to decimate each task's line for, in a plot that is ``width`` pixels wide."""
    return min(width, max(MIN_WIDTH, _MOST_POINTS // max(1, tasks)))


_plots: WeakKeyDictionary[Hub, WeakValueDictionary[tuple[str, str, int, str], Plot]] = WeakKeyDictionary()
_lock = threading.Lock()


def shared_plot(hub: Hub, run: str, metric: str, width: int, x: str) -> Plot:
    """Return the plot that all viewers of a metric at this width share. Raises InvalidInput."""
    with _lock:
        plots = _plots.setdefault(hub, WeakValueDictionary())
        plot = plots.get((run, metric, width, x))
        if plot is None:
            plot = plots[run, metric, width, x] = Plot(hub, run, metric, width, x)
        return plot


def series_message(run: str, frames: Sequence[bytes]) -> bytes:
    """Return an encoded SeriesMessage made of encoded frames."""
    return encode_json(SeriesMessage(run=run, frames=[msgspec.Raw(frame) for frame in frames]))  # type: ignore[misc]
