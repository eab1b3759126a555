from __future__ import annotations

import math

import numpy as np
import pytest

from jupyter_dtf.backend.records.decimate import SeriesCursor, bucket_exponent, decimate
from jupyter_dtf.backend.records.series import Columns, Series
from jupyter_dtf.errors import InvalidInput


def extend(series: Series, values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    number = np.arange(len(series), len(series) + values.size)
    series.extend(Columns(number.astype(np.float64), (number + 1e9).astype(np.float64), values, number))


def some_values(random: np.random.Generator, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return noise, a random walk, or few distinct values, sometimes with stretches of values that are not finite."""
    values = [random.normal(size=count), random.normal(size=count).cumsum(), random.integers(0, 3, count).astype(float)]
    chosen = values[int(random.integers(3))]
    for bad in (np.nan, np.inf, -np.inf):
        if random.random() < 0.3 and count:
            start = int(random.integers(count))
            chosen[start : start + int(random.integers(1, 1 + count // 3 + 1))] = bad
    return chosen


@pytest.mark.parametrize(
    ("count", "width", "k"), [(0, 600, 0), (300, 600, 0), (301, 600, 1), (600, 600, 1), (601, 600, 2), (9, 16, 1)]
)
def test_a_bucket_is_the_least_power_of_two_that_fits_the_width(count: int, width: int, k: int) -> None:
    assert bucket_exponent(count, width) == k
    assert count / 2**k <= width / 2


def test_extremes_survive_and_the_result_fits_the_width() -> None:
    for seed in range(60):
        check_extremes(seed)


def check_extremes(seed: int) -> None:
    random = np.random.default_rng(seed)
    width = int(random.integers(16, 1500))
    values = some_values(random, int(random.integers(0, 20_000)))
    kept = decimate(values, width)
    assert (np.diff(kept) > 0).all()
    assert kept.size <= width + 2 * math.log2(values.size + 2) + 1
    finite = values[np.isfinite(values)]
    if finite.size:
        assert finite.min() in values[kept]
        assert finite.max() in values[kept]
    if values.size:
        assert kept[-1] == values.size - 1
        assert kept.size >= min(values.size, width // 4)


def test_frames_applied_in_order_are_the_decimation_of_the_whole() -> None:
    for seed in range(40):
        check_frames(seed)


def check_frames(seed: int) -> None:
    random = np.random.default_rng(1000 + seed)
    width = int(random.integers(16, 400))
    values = some_values(random, int(random.integers(1, 6000)))
    series, cursor = Series(), SeriesCursor("loss", "worker:0", width)
    x: list[float | None] = []
    y: list[float | None] = []
    start = 0
    while start < values.size:
        size = int(random.integers(1, 500))
        extend(series, values[start : start + size])
        start += size
        frame = cursor.next(series)
        assert frame is not None
        assert (frame.metric, frame.task) == ("loss", "worker:0")
        assert frame.start <= len(x)
        x[frame.start :], y[frame.start :] = frame.x, frame.y
        kept = decimate(series.value, width)
        assert x == kept.astype(float).tolist()
        assert y == [v if math.isfinite(v) else None for v in series.value[kept].tolist()]
        assert cursor.next(series) is None


def test_only_the_tail_is_sent_between_doublings() -> None:
    series, cursor = Series(), SeriesCursor("loss", "", 600)
    extend(series, np.random.default_rng(0).normal(size=100_000))
    first = cursor.next(series)
    assert first is not None
    extend(series, np.zeros(100))
    second = cursor.next(series)
    assert second is not None
    assert second.start > 300
    assert len(second.x) < 20


def test_a_stretch_without_numbers_is_a_gap() -> None:
    series, cursor = Series(), SeriesCursor("loss", "", 16)
    extend(series, np.concatenate([np.ones(500), np.full(500, np.nan)]))
    frame = cursor.next(series)
    assert frame is not None
    assert None in frame.y
    assert frame.y[-1] is None


def test_x_may_be_the_time() -> None:
    series, cursor = Series(), SeriesCursor("loss", "", 16, x="time")
    extend(series, np.array([5.0]))
    frame = cursor.next(series)
    assert frame is not None
    assert (frame.x, frame.y) == ([1e9], [5.0])


@pytest.mark.parametrize("width", [0, 15, -1, 8193])
def test_a_width_that_is_no_width_is_refused(width: int) -> None:
    with pytest.raises(InvalidInput, match=f"`width` must be from 16 to 8192 pixels, got {width}"):
        SeriesCursor("loss", "", width)


def test_an_unknown_axis_is_refused() -> None:
    with pytest.raises(InvalidInput, match="`x` must be step or time, got 'epoch'"):
        SeriesCursor("loss", "", 600, x="epoch")
