"""Series of points: for one metric of one task, for the mean over tasks, and for a run's sparkline. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Columns(NamedTuple):
    """Points as columns of shape ``[n]``. ``time`` is in seconds since the epoch; ``seq`` numbers a task's points."""

    step: Floats
    time: Floats
    value: Floats
    seq: Ints


class Series:
    """The points of one metric of one task, oldest first.

    ``step``, ``time`` (seconds since the epoch), ``value`` and ``seq`` (the point's number within its task) are
    read-only arrays of shape ``[len(series)]``. They are snapshots that do not change while the series grows, so
    another thread may continue to read them.

    A restarted task continues its series; ``attempt`` has the attempt of each point.
    """

    __slots__ = ("_begins", "_columns", "_seq", "_size")

    def __init__(self) -> None:
        self._begins: list[tuple[int, int]] = []  # (index of the first point, attempt), except attempt 0
        self._columns: Floats = np.empty((3, 64), np.float64)  # step, time, value
        self._seq: Ints = np.empty(64, np.int64)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def step(self) -> Floats:
        return self._column(0)

    @property
    def time(self) -> Floats:
        return self._column(1)

    @property
    def value(self) -> Floats:
        return self._column(2)

    @property
    def seq(self) -> Ints:
        size = self._size
        return _read_only(self._seq[:size])

    @property
    def attempt(self) -> Ints:
        """The attempt of the task that each point belongs to."""
        found = np.zeros(self._size, np.int64)
        for begin, attempt in self._begins:
            found[begin:] = attempt
        return _read_only(found)

    def again(self, attempt: int, step: float) -> Series:
        """Return a copy of this series for a new attempt to continue, without the points from ``step`` on.

        The new attempt repeats those points.
        """
        kept = self.step < step
        series = Series()
        series._begins = [(int(kept[:begin].sum()), number) for begin, number in self._begins]
        series.extend(Columns(self.step[kept], self.time[kept], self.value[kept], self.seq[kept]))
        series._begins.append((len(series), attempt))
        return series

    def left_out(self, step: float) -> dict[int, Columns]:
        """Return the points from ``step`` on, which ``again`` leaves out, keyed by attempt."""
        left, attempts = self.step >= step, self.attempt
        parts = {int(number): left & (attempts == number) for number in np.unique(attempts[left])}
        return {
            number: Columns(self.step[part], self.time[part], self.value[part], self.seq[part])
            for number, part in parts.items()
        }

    def before(self, points: Columns) -> Series:
        """Return a series of the given points followed by the points of this series."""
        series = Series()
        series.extend(points)
        series.extend(Columns(self.step, self.time, self.value, self.seq))
        return series

    @property
    def newest_attempt(self) -> int:
        return self._begins[-1][1] if self._begins else 0

    def _column(self, number: int) -> Floats:
        size = self._size  # read before the array, which another thread may be replacing with a longer one
        return _read_only(self._columns[number, :size])

    def extend(self, points: Columns) -> None:
        """Append points."""
        end = self._size + points.seq.size
        capacity = self._seq.size
        if end > capacity:
            while capacity < end:
                capacity *= 2
            columns, numbers = np.empty((3, capacity), np.float64), np.empty(capacity, np.int64)
            columns[:, : self._size] = self._columns[:, : self._size]
            numbers[: self._size] = self._seq[: self._size]
            self._columns, self._seq = columns, numbers  # existing views keep the old arrays
        new = slice(self._size, end)
        self._columns[0, new] = points.step
        self._columns[1, new] = points.time
        self._columns[2, new] = points.value
        self._seq[new] = points.seq
        self._size = end


def _read_only(view: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view.flags.writeable = False
    return view


class MeanSeries:
    """The mean of one metric at each step, over the tasks that report it. All tasks have equal weight.

    A step is averaged over the tasks that reported it, once all tasks that still report have reached it. Its time is
    the latest of these tasks' times. A late report of a step below an averaged step is ignored. When a task reports for
    the first time or is restarted, the mean is recomputed in a new ``series``, so that it includes all steps of that
    task and the latest values of repeated steps.
    """

    AT_ONCE = 5000

    def __init__(self) -> None:
        self.series = Series()
        self._taken: dict[str, int] = {}
        self._parts: dict[str, Series] = {}
        self._until = -np.inf

    def update(self, parts: Mapping[str, Series], waiting: set[str]) -> bool:
        """Add the means of further steps that are complete, from about ``AT_ONCE`` points per task.

        Return whether more can be added.

        ``parts``: the metric's series, keyed by task; ``waiting``: the tasks that still report.
        """
        if any(self._parts.get(task) is not part for task, part in parts.items()):
            self._parts = dict(parts)
            self.series, self._taken, self._until = Series(), dict.fromkeys(parts, 0), -np.inf
        reached = [part.step[-1] for task, part in parts.items() if task in waiting and len(part)]
        limit = min(reached) if reached else np.inf
        long = [part.step[self._taken[task] :][: self.AT_ONCE] for task, part in parts.items()]
        soon = min((step.max() for step in long if step.size == self.AT_ONCE), default=np.inf)
        there_is_more = bool(soon < limit)
        limit = min(limit, soon)
        steps: list[Floats] = []
        times: list[Floats] = []
        values: list[Floats] = []
        for task, part in parts.items():
            start = self._taken[task]
            new = part.step[start:]
            size = self.AT_ONCE
            while size < new.size and new[:size].max() <= limit:
                size *= 2
            new = new[:size]
            count = int(np.searchsorted(np.maximum.accumulate(new), limit, side="right")) if new.size else 0
            self._taken[task] = start + count
            fresh = new[:count] > self._until
            steps.append(new[:count][fresh])
            times.append(part.time[start : start + count][fresh])
            values.append(part.value[start : start + count][fresh])
        step, where = np.unique(np.concatenate(steps), return_inverse=True)
        if not step.size:
            return there_is_more
        last = np.full(step.size, -np.inf)
        np.maximum.at(last, where, np.concatenate(times))
        mean = np.bincount(where, np.concatenate(values)) / np.bincount(where)
        size = len(self.series)
        self.series.extend(Columns(step, last, mean, np.arange(size, size + step.size)))
        self._until = float(step[-1])
        return there_is_more


class Sparkline:
    """At most ``limit`` means, each over the same number of consecutive values.

    Values that are not finite are left out. The result depends on the values, not on the batches in which they are
    added.
    """

    def __init__(self, limit: int = 60) -> None:
        self._limit = limit
        self._bucket = 1
        self._means: list[float] = []
        self._sum = 0.0
        self._count = 0

    def extend(self, values: Floats) -> None:
        """Add values, shape ``[n]``, oldest first."""
        values = values[np.isfinite(values)]
        while values.size:
            part, values = values[: self._bucket - self._count], values[self._bucket - self._count :]
            self._sum += float(part.sum())
            self._count += part.size
            if self._count == self._bucket:
                self._means.append(self._sum / self._count)
                self._sum, self._count = 0.0, 0
                if len(self._means) >= self._limit:
                    self._means = [(a + b) / 2 for a, b in zip(self._means[::2], self._means[1::2], strict=True)]
                    self._bucket *= 2

    @property
    def values(self) -> list[float]:
        """The means, oldest first; the last one may cover fewer values."""
        return [*self._means, self._sum / self._count] if self._count else list(self._means)
