from __future__ import annotations

import numpy as np
import pytest

from jupyter_dtf.backend.records.series import Columns, MeanSeries, Series, Sparkline


def columns(steps: list[float], values: list[float], time: float = 0.0) -> Columns:
    step = np.array(steps, float)
    return Columns(step, time + step, np.array(values, float), np.arange(len(steps)))


def test_a_series_grows_and_views_stay_as_they_were() -> None:
    series = Series()
    assert len(series) == 0
    assert series.value.shape == (0,)
    series.extend(columns([0, 1], [5, 6]))
    early = series.value
    series.extend(columns(list(range(2, 1000)), [float(i) for i in range(2, 1000)]))
    assert early.tolist() == [5, 6]
    assert len(series) == 1000
    assert series.value[:3].tolist() == [5, 6, 2]
    assert series.step[-1] == 999
    assert series.time[-1] == 999
    assert series.seq[-1] == 997
    with pytest.raises(ValueError, match="read-only"):
        series.value[0] = 1


def of(*parts: tuple[list[float], list[float]]) -> dict[str, Series]:
    result = {}
    for i, (steps, values) in enumerate(parts):
        series = result[f"worker:{i}"] = Series()
        series.extend(columns(steps, values, time=10.0 * i))
    return result


def test_the_mean_waits_for_the_slowest_task_that_still_reports() -> None:
    mean = MeanSeries()
    parts = of(([0, 1, 2], [1, 1, 1]), ([0, 1], [3, 5]))
    mean.update(parts, {"worker:0", "worker:1"})
    assert mean.series.step.tolist() == [0, 1]
    assert mean.series.value.tolist() == [2, 3]
    assert mean.series.time.tolist() == [10, 11]  # those of the last task
    mean.update(parts, {"worker:0"})  # worker:1 has ended
    assert mean.series.step.tolist() == [0, 1, 2]
    assert mean.series.value.tolist() == [2, 3, 1]


@pytest.mark.parametrize("seed", range(5))
def test_the_mean_of_batches_is_the_mean_of_all(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MeanSeries, "AT_ONCE", 10 if seed % 2 else 5000)
    random = np.random.default_rng(seed)
    values = random.normal(size=(3, 400))
    parts: dict[str, Series] = {}
    mean, taken = MeanSeries(), [0, 0, 0]
    while min(taken) < 400:
        task = int(random.integers(3))
        parts.setdefault(f"worker:{task}", Series())
        count = min(int(random.integers(1, 40)), 400 - taken[task])
        if not count:
            continue
        steps = [float(s) for s in range(taken[task], taken[task] + count)]
        parts[f"worker:{task}"].extend(columns(steps, values[task, taken[task] : taken[task] + count].tolist()))
        taken[task] += count
        while mean.update(parts, set(parts)):
            pass
    np.testing.assert_array_equal(mean.series.step, np.arange(400))
    np.testing.assert_allclose(mean.series.value, values.mean(axis=0))


def test_the_mean_takes_tasks_that_report_at_other_steps_and_leaves_out_steps_that_come_again() -> None:
    mean = MeanSeries()
    parts = of(([0, 2, 4, 1], [1, 1, 1, 9]), ([2, 4], [3, 3]))
    mean.update(parts, set())
    parts["worker:0"].extend(columns([3], [9]))
    mean.update(parts, set())
    assert mean.series.step.tolist() == [0, 1, 2, 4]
    assert mean.series.value.tolist() == [1, 9, 2, 2]


def test_a_long_mean_is_made_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MeanSeries, "AT_ONCE", 10)
    steps = [float(step) for step in range(100)]
    steps[37], steps[38] = 38.0, 37.0  # out of order
    parts = of((steps, [1.0] * 100), (steps, [3.0] * 100))
    mean, sizes = MeanSeries(), []
    while mean.update(parts, set()):
        sizes.append(len(mean.series))
    assert sizes == sorted(set(sizes))
    assert len(sizes) >= 9
    np.testing.assert_array_equal(mean.series.step, np.arange(100))
    np.testing.assert_array_equal(mean.series.value, np.full(100, 2.0))


@pytest.mark.parametrize("count", [0, 1, 59, 60, 61, 119, 120, 1000, 12_345])
def test_a_sparkline_has_at_most_60_values_and_does_not_depend_on_batches(count: int) -> None:
    random = np.random.default_rng(count)
    values = random.normal(size=count)
    whole, batched = Sparkline(), Sparkline()
    whole.extend(values)
    start = 0
    while start < count:
        size = int(random.integers(1, 200))
        batched.extend(values[start : start + size])
        start += size
    np.testing.assert_allclose(batched.values, whole.values)
    assert len(whole.values) <= 60
    assert len(whole.values) >= min(count, 30)
    if count <= 59:
        np.testing.assert_allclose(whole.values, values)


def test_a_sparkline_leaves_out_what_is_not_finite() -> None:
    line = Sparkline()
    line.extend(np.array([1.0, np.nan, np.inf, 2.0]))
    assert line.values == [1.0, 2.0]
