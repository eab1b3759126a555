"""Decimates a series for a plot's width: keeps each bucket's minimum and maximum. Stable as the series grows. Pure.

The first points of a series are cut into buckets of ``2^k`` consecutive points, where ``k`` is the least number with
``n / 2^k <= width / 2``. The minimum and the maximum of each bucket are kept, in their original order. The tail, which
does not fill a bucket, is cut into buckets of decreasing powers of two in the same way, and the newest point is always
kept. Only the tail of the result changes until ``k`` grows, which happens each time the series doubles in length.
Therefore, a viewer is usually sent only the tail.

Values that are not finite are never a minimum or maximum. A bucket without finite values keeps its first point as a
gap.
"""

from __future__ import annotations

import math

import numpy as np
from tsdownsample import MinMaxDownsampler

from ...errors import InvalidInput
from ...schema.socket_messages import SeriesFrame
from .series import Floats, Ints, Series

MIN_WIDTH, MAX_WIDTH = 16, 8192

_downsampler = MinMaxDownsampler()


def bucket_exponent(count: int, width: int) -> int:
    """Return the least ``k`` with ``count / 2^k <= width / 2``."""
    k = 0
    while count > (width // 2) << k:
        k += 1
    return k


def min_max(values: Floats, bucket: int) -> Ints:
    """Return the ascending indices of the points of ``values`` to keep. Its length must be a multiple of ``bucket``."""
    if bucket <= 2 or not values.size:
        return np.arange(values.size)
    finite = np.isfinite(values)
    if not finite.all():
        values = np.where(finite, values, np.nan)  # the downsampler skips NaN
    kept = _downsampler.downsample(np.ascontiguousarray(values), n_out=2 * (values.size // bucket))
    return np.unique(kept.astype(np.int64))  # a bucket whose minimum is also its maximum yields one point


def decimate(values: Floats, width: int) -> Ints:
    """Return the ascending indices of the points of ``values``, shape ``[n]``, for a plot ``width`` pixels wide.

    There are at most about ``width + 2 log2(n)`` indices, including those of the minimum and maximum finite values.
    """
    bucket = 1 << bucket_exponent(values.size, width)
    full = values.size // bucket * bucket
    return _join(min_max(values[:full], bucket), _tail(values, full, bucket))


def _join(full: Ints, tail: Ints) -> Ints:
    """Concatenate two ascending index arrays. The newest point may be in both."""
    if full.size and tail.size and full[-1] == tail[0]:
        tail = tail[1:]
    return np.concatenate([full, tail])


def _tail(values: Floats, start: int, bucket: int) -> Ints:
    """Return the indices to keep among the points from ``start``, cut into buckets of decreasing size.

    There are fewer than ``bucket`` of these points.
    """
    parts: list[Ints] = [np.empty(0, np.int64)]
    while start < values.size:
        while bucket > values.size - start:
            bucket //= 2
        parts.append(start + _extremes(values[start : start + bucket]))
        start += bucket
    newest = values.size - 1
    if newest >= 0 and (not parts[-1].size or parts[-1][-1] != newest):
        parts.append(np.array([newest]))
    return np.concatenate(parts)


def _extremes(values: Floats) -> Ints:
    """Return ``min_max`` of one bucket. For a few points, NumPy is faster than the downsampler."""
    finite = np.isfinite(values)
    if not finite.all():
        if not finite.any():
            return np.array([0])
        return np.unique([np.where(finite, values, np.inf).argmin(), np.where(finite, values, -np.inf).argmax()])
    low, high = int(values.argmin()), int(values.argmax())
    return np.array([low] if low == high else sorted((low, high)))


class SeriesCursor:
    """Tracks which points of a line have been sent to a viewer, and creates the frames that update the viewer."""

    def __init__(self, metric: str, task: str, width: int, x: str = "step") -> None:
        """``width`` is in pixels, from 16 to 8192; ``x`` is ``step`` or ``time``. Raises InvalidInput."""
        check_view(width, x)
        self._metric = metric
        self._task = task
        self._width = width
        self._x = x
        self._series: Series | None = None
        self._size = 0
        self._bucket = 1
        self._full = 0  # the number of points in the full buckets that were sent
        self._sent = 0  # the number of those points that were kept

    def next(self, series: Series) -> SeriesFrame | None:
        """Return the frame that turns the points sent so far into ``decimate(series)``; None if no point is new."""
        values = series.value
        if values.size == self._size and series is self._series:
            return None
        bucket = 1 << bucket_exponent(values.size, self._width)
        if bucket != self._bucket or series is not self._series:
            self._series, self._bucket, self._full, self._sent = series, bucket, 0, 0
        start = self._sent
        full = values.size // bucket * bucket
        new = self._full + min_max(values[self._full : full], bucket)
        kept = _join(new, _tail(values, full, bucket))
        self._size, self._full, self._sent = values.size, full, start + new.size
        x = (series.step if self._x == "step" else series.time)[kept]
        return SeriesFrame(metric=self._metric, task=self._task, start=start, x=plain(x), y=plain(values[kept]))


def check_view(width: int, x: str) -> None:
    """Raise InvalidInput unless ``width`` (in pixels) and the x axis ``x`` are valid for a plot."""
    if not MIN_WIDTH <= width <= MAX_WIDTH:
        raise InvalidInput(f"`width` must be from {MIN_WIDTH} to {MAX_WIDTH} pixels, got {width}", field="width")
    if x not in ("step", "time"):
        raise InvalidInput(f"`x` must be step or time, got {x!r:.100}", field="x")


def plain(values: Floats) -> list[float | None]:
    """Replace NaN and infinities, which JSON does not have, with None."""
    found: list[float | None] = values.tolist()
    if not np.isfinite(values).all():
        found = [value if math.isfinite(value) else None for value in values.tolist()]
    return found
