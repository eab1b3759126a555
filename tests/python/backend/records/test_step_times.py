"""The median duration of a run's steps, which neither the first steps nor a slow one distort."""

from __future__ import annotations

import numpy as np

from jupyter_dtf.backend.records.series import Columns, Series
from jupyter_dtf.backend.records.step_times import step_times


def series(*seconds: float, first: int = 2) -> Series:
    made = Series()
    steps = np.arange(first, first + len(seconds), dtype=float)
    made.extend(Columns(step=steps, time=steps, value=np.array(seconds), seq=np.arange(len(seconds))))
    return made


def test_the_median_without_the_first_steps() -> None:
    parts = {("loss", "worker:0"): series(1.0), ("step_seconds", "worker:0"): series(9.0, 0.197, 5.0, 1, 2, 3, 4, 90)}
    found = step_times(parts, {"batch_size": 64})
    assert found is not None
    assert (found.count, found.left_out, found.batch_size) == (5, 4, 64)
    assert (found.low_s, found.median_s, found.high_s) == (2.0, 3.0, 4.0)


def test_a_run_of_too_few_steps_says_nothing() -> None:
    assert step_times({}, {}) is None
    assert step_times({("step_seconds", "worker:0"): series(0.1, 0.2, 0.3)}, {}) is None


def test_what_is_no_number_does_not_count() -> None:
    found = step_times({("step_seconds", "worker:0"): series(float("nan"), 0.5, first=5)}, {"batch_size": "all"})
    assert found is not None and (found.count, found.median_s, found.batch_size) == (1, 0.5, 0)
