"""The record of a run, built by applying all of its events in order. Pure: no clock, no file, no thread."""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
from collections.abc import Collection, Iterable

import msgspec
import numpy as np

from ...errors import Conflict
from ...schema.events import (
    MEDIA_EVENTS,
    AnyEvent,
    EpochEnded,
    Logged,
    Point,
    Points,
    RunChanged,
    UnknownEvent,
    decode_event,
    decode_points,
)
from ...schema.metrics import headline_of, is_load
from ...schema.run import RunDescriptor, RunInfo
from .apply_event import apply_event, objectives_of
from .best_values import BestValues
from .kept_media import KeptMedia
from .output_tail import ENDED_BYTES, OutputTail
from .series import Columns, MeanSeries, Series, Sparkline

_EVENT_BYTES, _LINE_BYTES = 256, 64
"""The overhead of an output event, and of each of its lines, in addition to their characters."""


class RunRecord:
    """One run: its description, its events, its series. Not thread-safe, except for the arrays of a Series.

    * ``info``: the RunInfo after the last event applied, including ``next_seq`` and the fields that points set.
    * ``series``: ``{(metric, task): Series}``, in the order of their first points.
    * ``media``: the histograms, images, text items and tables.
    * ``lost``: ``{task: number of points}`` that the task has numbered but that have not arrived; normally empty.
    * ``skipped``: ``{type: number of events}`` from a newer version that this version cannot read.

    A restarted task continues its series. From its first step on, its points replace the earlier ones, so that a plot
    shows the path that led to the model. Metrics of the machine refer to points in time, not to training steps: all of
    their points are kept, and their steps (seconds) continue from the last one.
    """

    def __init__(self, run: RunDescriptor) -> None:
        """Create a record without events. ``run`` may be a summary as of any time: events will override its fields."""
        self.info = RunInfo.of(run)
        self.series: dict[tuple[str, str], Series] = {}
        self.media = KeptMedia()
        self.lost: dict[str, int] = {}
        self.skipped: dict[str, int] = {}
        self._seqs: list[int] = []
        self._events: list[AnyEvent] = []
        self._tail = OutputTail()
        self._logged: dict[int, Logged] = {}  # the output that is kept, keyed by sequence number, ascending
        self._next_point: dict[tuple[str, int], int] = {}  # keyed by task and attempt
        self._attempts: dict[str, int] = {}  # the newest attempt of each task that has reported
        self._replaced: dict[str, dict[tuple[str, int], Series]] = {}  # metric -> task and attempt -> series
        self._offset: dict[tuple[str, str], float] = {}  # added to the steps of the machine's metrics
        self._tasks_of: dict[str, dict[str, Series]] = {}  # metric -> task -> series
        self._newest: dict[str, dict[str, float]] = {}  # metric -> task -> value
        self._means: dict[str, MeanSeries] = {}
        self._best = BestValues()
        self._headline_of: dict[str, str] = {}
        self._headline_for: tuple[int, bool] = 0, False  # the number of metrics, and whether the run has ended
        self._sparkline = Sparkline()
        self._sparkline_of: tuple[str, str] | None = None
        self._sparkline_series: Series | None = None
        self._sparkline_taken = 0
        self._sparkline_has_steps = False

    @classmethod
    def replay(cls, run: RunDescriptor, events: Iterable[tuple[int, bytes]]) -> RunRecord:
        """Build the record of a run from all of its encoded events, given as ``(seq, data)``."""
        record = cls(run)
        for seq, data in events:
            record.apply(seq, decode_event(data))
        return record

    @property
    def next_seq(self) -> int:
        return self.info.next_seq

    def apply(self, seq: int, event: AnyEvent | UnknownEvent) -> None:
        """Apply the run's next event. Raises Conflict if ``seq`` is not ``next_seq``.

        An event that cannot be decoded advances ``next_seq`` and changes nothing else but ``skipped``.
        """
        if seq != self.info.next_seq:
            raise Conflict(
                f"The events of a run must be applied in order, without gaps: `seq` must be {self.info.next_seq} for "
                f"{self.info.id}, got {seq}"
            )
        try:
            self._follow(seq, event)
        finally:
            # The next event is accepted even if applying this one failed.
            self.info.next_seq = self.info.points_seq = seq + 1

    def _follow(self, seq: int, event: AnyEvent | UnknownEvent) -> None:
        if isinstance(event, UnknownEvent):
            self.skipped[event.type] = self.skipped.get(event.type, 0) + 1
        elif isinstance(event, Points):
            self._add_points(event)
        elif isinstance(event, Logged):
            self._add_output(seq, event)
        elif isinstance(event, MEDIA_EVENTS):
            self.media.add(event)
        else:
            apply_event(self.info, event)
            self._seqs.append(seq)
            self._events.append(event)
            if isinstance(event, EpochEnded):
                self.info.best = self._best.of_epochs(event, self._events)
            if isinstance(event, RunChanged) and event.state.is_final:
                self._drop(self._tail.shrink(ENDED_BYTES))
                self._update_headline()
                self.info.best = self._best.of_points(self._headline_of, self._tasks_of)

    def events(self, after: int = -1, limit: int | None = None) -> list[tuple[int, AnyEvent]]:
        """Return up to ``limit`` events after sequence number ``after`` as ``(seq, event)``, oldest first.

        Points and media are not included: see ``series`` and ``media``. Of the output, only the end is included
        (``OutputTail``); the run's files have all of it.
        """
        start = bisect.bisect_right(self._seqs, after)
        end = len(self._seqs) if limit is None else start + limit
        others = zip(self._seqs[start:end], self._events[start:end], strict=True)
        logged = itertools.takewhile(lambda item: item[0] > after, reversed(self._logged.items()))
        found = heapq.merge(others, reversed(list(logged)), key=lambda item: item[0])
        return list(itertools.islice(found, limit))

    def _add_output(self, seq: int, event: Logged) -> None:
        if event.lines:  # events without lines are placeholders for dropped output
            self._logged[seq] = event
            size = _EVENT_BYTES + sum(map(len, event.lines)) + _LINE_BYTES * len(event.lines)
            self._drop(self._tail.add(seq, (event.task, event.stream), size))

    def _drop(self, gone: Iterable[tuple[int, object]]) -> None:
        for seq, _ in gone:
            del self._logged[seq]

    def mean(self, metric: str) -> Series | None:
        """Return the metric's mean over its tasks at each step (MeanSeries); None if fewer than two tasks report it."""
        while self.advance_mean(metric):
            pass
        mean = self._means.get(metric)
        return mean.series if mean is not None else None

    def advance_mean(self, metric: str) -> bool:
        """Do a bounded part of the work of ``mean``, for callers that must not block. Return whether more remains."""
        parts = self._tasks_of.get(metric, {})
        if len(parts) < 2:
            return False
        ended = {t.task for t in self.info.tasks if t.state.is_final}
        waiting = set() if self.info.state.is_final else set(parts) - ended
        return self._means.setdefault(metric, MeanSeries()).update(parts, waiting)

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics, in the order of their first points."""
        return list(self._tasks_of)

    def lines(self, metrics: Collection[str] | None = None) -> dict[tuple[str, str], Series]:
        """Return the plot lines of these metrics (default: all). Metrics not reported yet are left out.

        The result contains every series and, before the series of a metric with several tasks, their mean as
        ``(metric, "")``.
        """
        result: dict[tuple[str, str], Series] = {}
        for metric in self._tasks_of if metrics is None else metrics:
            parts = self._tasks_of.get(metric, {})
            mean = self.mean(metric)
            if mean is not None:
                result[metric, ""] = mean
            result.update({(metric, task): series for task, series in parts.items()})
        return result

    def replaced(self, metrics: Collection[str]) -> dict[tuple[str, str, int], Series]:
        """Return the points of these metrics that a later attempt replaced, keyed by metric, task and attempt."""
        return {
            (metric, task, attempt): series
            for metric in metrics
            for (task, attempt), series in self._replaced.get(metric, {}).items()
        }

    def _add_points(self, event: Points) -> None:
        task, attempt = event.task, event.attempt
        expected = self._next_point.get((task, attempt), 0)
        end = event.first + event.count
        if event.first > expected:
            self.lost[task] = self.lost.get(task, 0) + event.first - expected
        try:
            points = decode_points(event)
        except msgspec.MsgspecError:  # a damaged batch loses only its points
            self.lost[task] = self.lost.get(task, 0) + max(end - max(expected, event.first), 0)
            self._next_point[task, attempt] = max(end, expected)
            return
        if event.first < expected:
            points = points[expected - event.first :]  # a batch sent twice
        if not points:
            return
        self._next_point[task, attempt] = end
        if attempt < self._attempts.get(task, 0):
            return  # late: a later attempt has replaced this one
        self._attempts[task] = attempt
        first = end - len(points)
        values = [point.values for point in points]
        names = values[0].keys()
        if all(v.keys() == names for v in values):
            step, time = np.array([p.step for p in points]), np.array([p.time for p in points])
            seq = np.arange(first, end)
            for name in names:
                self._extend(name, task, Columns(step, time, np.array([v[name] for v in values]), seq))
        else:
            for name in dict.fromkeys(name for v in values for name in v):
                some: list[tuple[int, Point]] = [(first + i, p) for i, p in enumerate(points) if name in p.values]
                step, time = np.array([p.step for _, p in some]), np.array([p.time for _, p in some])
                value, seq = np.array([p.values[name] for _, p in some]), np.array([i for i, _ in some])
                self._extend(name, task, Columns(step, time, value, seq))
        self._update_headline()
        self._update_sparkline()

    def _extend(self, metric: str, task: str, columns: Columns) -> None:
        series = self.series.get((metric, task))
        if series is None:
            series = self.series[metric, task] = Series()
            self._tasks_of.setdefault(metric, {})[task] = series
        if series.newest_attempt < self._attempts[task]:
            series = self._continue(series, metric, task, columns)
        if offset := self._offset.get((metric, task)):
            columns = columns._replace(step=columns.step + offset)
        series.extend(columns)
        newest = self._newest.setdefault(metric, {})
        newest[task] = float(columns.value[-1])
        self.info.latest[metric] = sum(newest.values()) / len(newest)

    def _continue(self, known: Series, metric: str, task: str, columns: Columns) -> Series:
        """Continue the series of a metric that a new attempt reports for the first time."""
        begins = float(columns.step[0])
        if is_load(metric):
            if len(known):
                behind = float(known.step[-1]) + float(columns.time[0]) - float(known.time[-1]) - begins
                self._offset[metric, task] = max(behind, float(known.step[-1]) - begins)
            begins = math.inf
        for attempt, points in known.left_out(begins).items():
            done = self._replaced.setdefault(metric, {})
            done[task, attempt] = done.get((task, attempt), Series()).before(points)
        series = known.again(self._attempts[task], begins)
        self.series[metric, task] = self._tasks_of[metric][task] = series
        return series

    def _update_headline(self) -> None:
        names, has_ended = self.info.latest, self.info.state.is_final
        if (len(names), has_ended) != self._headline_for:  # there may be a thousand metrics
            self._headline_for = len(names), has_ended
            self._headline_of = headline_of(names.keys(), has_ended, objectives_of(self.info))
        self.info.headline = {name: names[metric] for name, metric in self._headline_of.items()}

    def _update_sparkline(self) -> None:
        """Update the sparkline: a trial's first objective, else the loss, else the first metric of the headline.

        If several tasks report the metric, the sparkline shows the task that reported it first.
        """
        best = [*objectives_of(self.info)[:1], "loss"]
        if self._sparkline_of is None or self._sparkline_of[0] != best[0]:
            wanted = next((name for name in (*best, *self._headline_of.values()) if name in self._tasks_of), None)
            of = (wanted, next(iter(self._tasks_of[wanted]))) if wanted is not None else None
            if of is not None and (self._sparkline_of is None or of[0] in best):
                self._sparkline_of = of
        if self._sparkline_of is None:
            return  # no metric of the model
        series = self.series[self._sparkline_of]
        if series is not self._sparkline_series:  # a new or a restarted series: start again, like the plot
            self._sparkline, self._sparkline_series, self._sparkline_taken = Sparkline(), series, 0
            self._sparkline_has_steps = False
        if len(series) > self._sparkline_taken:
            values, steps = series.value[self._sparkline_taken :], series.step[self._sparkline_taken :]
            self._sparkline.extend(values)
            if (finite := steps[np.isfinite(values)]).size:
                first = self.info.sparkline_steps[0] if self._sparkline_has_steps else float(finite[0])
                self.info.sparkline_steps = [first, float(finite[-1])]
                self._sparkline_has_steps = True
            self._sparkline_taken = len(series)
            self.info.sparkline = self._sparkline.values
