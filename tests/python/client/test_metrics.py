"""Tests of ``run.metrics`` while the run is active."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from jupyter_dtf.backend.records.series import Columns, Series
from jupyter_dtf.client.run import Run


class Growing(Series):
    """A series that gets another point whenever its steps are read."""

    @property
    def step(self) -> Any:
        seen = super().step
        self.extend(Columns(np.ones(1), np.ones(1), np.ones(1), np.ones(1, np.int64)))
        return seen


def test_points_that_come_while_they_are_looked_at_are_those_of_the_next_look() -> None:
    series = {("loss", "worker:0"): Growing()}
    hub = types.SimpleNamespace(record=lambda _: types.SimpleNamespace(series=series))
    run = Run.__new__(Run)
    vars(run).update(id="r", _session=types.SimpleNamespace(hub=hub))
    assert [len(run.metrics) for _ in range(3)] == [0, 1, 2]
