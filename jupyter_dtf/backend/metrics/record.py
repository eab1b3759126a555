"""All that is known of one run, built by applying its events in order. Pure: no clock, no file, no thread."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

import msgspec
import numpy as np

from ...errors import Conflict
from ...schema.events import AnyEvent, Point, Points, decode_event, decode_points
from ...schema.run import Progress, RunInfo, RunState, TaskInfo
from ..info import apply_event
from .series import Columns, MeanSeries, Series, Sparkline


class RunRecord:
    """One run: its description, its events, its series. Not thread-safe; the views of a Series are.

    ``info``    the RunInfo after the last event applied, with ``latest``, ``sparkline`` and ``next_seq`` kept up
    ``series``  ``{(metric, task): Series}``, in the order of their first points
    ``lost``    ``{task: points}`` that were numbered by the task and never arrived; empty when all is well
    """

    def __init__(self, info: RunInfo) -> None:
        """A record without events. ``info`` may be of any time: what events tell is taken from the events."""
        self.info = msgspec.structs.replace(
            info,
            state=RunState.PENDING,
            message="",
            started=None,
            ended=None,
            tasks=[TaskInfo(task=task.task) for task in info.tasks],
            progress=Progress(),
            latest={},
            sparkline=[],
            next_seq=0,
        )
        self.series: dict[tuple[str, str], Series] = {}
        self.lost: dict[str, int] = {}
        self._seqs: list[int] = []
        self._events: list[AnyEvent] = []
        self._next_point: dict[str, int] = {}
        self._tasks_of: dict[str, dict[str, Series]] = {}  # metric -> task -> series
        self._newest: dict[str, dict[str, float]] = {}  # metric -> task -> value
        self._means: dict[str, MeanSeries] = {}
        self._sparkline = Sparkline()
        self._sparkline_of: tuple[str, str] | None = None
        self._sparkline_taken = 0

    @classmethod
    def replay(cls, info: RunInfo, events: Iterable[tuple[int, bytes]]) -> RunRecord:
        """The record of a run from all its encoded events."""
        record = cls(info)
        for seq, data in events:
            record.apply(seq, decode_event(data))
        return record

    @property
    def next_seq(self) -> int:
        return self.info.next_seq

    def apply(self, seq: int, event: AnyEvent) -> None:
        """Apply the run's next event. Raises Conflict if ``seq`` is not ``next_seq``."""
        if seq != self.info.next_seq:
            raise Conflict(
                f"The events of a run are applied in order, without gaps: the next of {self.info.id} is "
                f"{self.info.next_seq}. Received: {seq}"
            )
        if isinstance(event, Points):
            self._add_points(event)
        else:
            apply_event(self.info, event)
            self._seqs.append(seq)
            self._events.append(event)
        self.info.next_seq = seq + 1

    def events(self, after: int = -1) -> list[tuple[int, AnyEvent]]:
        """(seq, event) of every event after sequence number ``after`` but the points, oldest first."""
        start = bisect.bisect_right(self._seqs, after)
        return list(zip(self._seqs[start:], self._events[start:], strict=True))

    def mean(self, metric: str) -> Series | None:
        """The metric's mean over its tasks, by step (see MeanSeries), or None when fewer than two tasks report it."""
        while self.advance_mean(metric):
            pass
        mean = self._means.get(metric)
        return mean.series if mean is not None else None

    def advance_mean(self, metric: str) -> bool:
        """A piece of the work that ``mean`` does, for who must not be held up; True while there is more of it."""
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

    def lines(self) -> dict[tuple[str, str], Series]:
        """What a plot shows: every series, and ``(metric, "")``, the mean, before those of a metric with several."""
        result: dict[tuple[str, str], Series] = {}
        for metric, parts in self._tasks_of.items():
            mean = self.mean(metric)
            if mean is not None:
                result[metric, ""] = mean
            result.update({(metric, task): series for task, series in parts.items()})
        return result

    def _add_points(self, event: Points) -> None:
        task = event.task
        expected = self._next_point.get(task, 0)
        end = event.first + event.count
        if event.first > expected:
            self.lost[task] = self.lost.get(task, 0) + event.first - expected
        try:
            points = decode_points(event)
        except msgspec.MsgspecError:  # a damaged batch costs its points, not the run
            self.lost[task] = self.lost.get(task, 0) + max(end - max(expected, event.first), 0)
            self._next_point[task] = max(end, expected)
            return
        if event.first < expected:
            points = points[expected - event.first :]  # a batch sent twice
        if not points:
            return
        self._next_point[task] = end
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
        self._update_sparkline()

    def _extend(self, metric: str, task: str, columns: Columns) -> None:
        series = self.series.get((metric, task))
        if series is None:
            series = self.series[metric, task] = Series()
            self._tasks_of.setdefault(metric, {})[task] = series
        series.extend(columns)
        newest = self._newest.setdefault(metric, {})
        newest[task] = float(columns.value[-1])
        self.info.latest[metric] = sum(newest.values()) / len(newest)

    def _update_sparkline(self) -> None:
        """The loss of the first task that reports one, or the first metric while there is no loss."""
        if not self.series:
            return  # points without values
        if self._sparkline_of is None or self._sparkline_of[0] != "loss":
            of = next((key for key in self.series if key[0] == "loss"), self._sparkline_of) or next(iter(self.series))
            if of != self._sparkline_of:
                self._sparkline, self._sparkline_of, self._sparkline_taken = Sparkline(), of, 0
        assert self._sparkline_of is not None
        series = self.series[self._sparkline_of]
        if len(series) > self._sparkline_taken:
            self._sparkline.extend(series.value[self._sparkline_taken :])
            self._sparkline_taken = len(series)
            self.info.sparkline = self._sparkline.values
