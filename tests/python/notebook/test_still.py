from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import msgspec
import numpy as np
import pytest

from jupyter_dtf.backend.records.series import Columns, Series
from jupyter_dtf.notebook.still import still, ticks
from jupyter_dtf.schema.run import Progress, RunInfo, RunState, TaskInfo

SVG = "{http://www.w3.org/2000/svg}"
INFO = RunInfo(
    id="run-1",
    name="mlp",
    cluster="here",
    state=RunState.SUCCEEDED,
    tasks=[TaskInfo(task="worker:0"), TaskInfo(task="worker:1")],
    progress=Progress(epoch=3, epochs=3),
    started=1.0,
    ended=14.0,
)


def series(*values: float) -> Series:
    result = Series()
    step = np.arange(len(values), dtype=float)
    result.extend(Columns(step, step, np.array(values, dtype=float), np.arange(len(values))))
    return result


def lines_of(picture: str) -> list[ET.Element]:
    return [path for path in ET.fromstring(picture).iter(f"{SVG}path") if path.get("stroke-width") == "1.5"]


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(picture).iter(f"{SVG}text")]


def test_plots_in_the_dashboards_order() -> None:
    names = ("examples_per_second", "accuracy", "cpu", "loss", "val_loss", "memory_bytes")
    picture = still(INFO, {(name, "worker:0"): series(1, 2, 3) for name in names})
    headings = [e.text for e in ET.fromstring(picture).iter(f"{SVG}text") if e.get("font-weight") == "600"]
    assert headings == ["loss", "accuracy", "examples/s"]


def test_a_line_for_each_task_and_none_for_their_mean() -> None:
    picture = still(INFO, {("loss", task): series(1, 2, 3) for task in ("", "worker:0", "worker:1")})
    assert [line.get("stroke") for line in lines_of(picture)] == ["#0072b2", "#c47d00"]
    assert {"worker:0", "worker:1"} <= set(texts(picture))


def test_validation_is_dashed_and_shares_the_plot() -> None:
    picture = still(INFO, {("loss", "worker:0"): series(3, 2, 1), ("val_loss", "worker:0"): series(3, 2)})
    assert [line.get("stroke-dasharray") for line in lines_of(picture)] == [None, "5 3"]


def test_lines_are_where_their_values_are() -> None:
    (line,) = lines_of(still(INFO, {("loss", "worker:0"): series(0, 10, 5)}))
    points = [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", line.get("d") or "")]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y2 == pytest.approx((y0 + y1) / 2, abs=0.2)
    assert y1 < y0  # the y axis points down


def test_a_gap_where_a_value_is_not_finite() -> None:
    (line,) = lines_of(still(INFO, {("loss", "worker:0"): series(1, 2, math.nan, math.inf, 2, 1)}))
    assert (line.get("d") or "").count("M") == 2


def test_epochs_are_dots_of_their_metric_s_plot() -> None:
    lines = {("loss", "worker:0"): series(3, 2, 1), ("epoch_loss", "worker:0"): series(2, 1)}
    picture = still(INFO, lines)
    assert len(lines_of(picture)) == 1
    assert len(list(ET.fromstring(picture).iter(f"{SVG}circle"))) == 2
    headings = [e.text for e in ET.fromstring(picture).iter(f"{SVG}text") if e.get("font-weight") == "600"]
    assert headings == ["loss"]


def test_a_mark_where_values_begin_not_to_be_finite() -> None:
    sentence = "loss became NaN at step 2 on worker:0"
    info = msgspec.structs.replace(INFO, not_finite={"loss": sentence})
    picture = still(info, {("loss", "worker:0"): series(1, 2, math.nan), ("acc", "worker:0"): series(1, 2, 3)})
    assert texts(picture).count(sentence) == 1
    (mark,) = [path for path in ET.fromstring(picture).iter(f"{SVG}path") if path.get("stroke-dasharray") == "4 4"]
    assert [title.text for title in mark] == [sentence]
    assert (mark.get("d") or "").startswith("M288.0 ")  # the last step, at the right end of the axis


@pytest.mark.parametrize("values", [[1.0], [2.0, 2.0], [0.0], [math.nan], [1e308, -1e308], [1e-300, 2e-300]])
def test_any_values_make_a_picture(values: list[float]) -> None:
    picture = still(INFO, {("loss", "worker:0"): series(*values)})
    assert "nan" not in picture.replace(">nan<", "")
    ET.fromstring(picture)


def test_long_series_are_decimated() -> None:
    assert len(still(INFO, {("loss", "worker:0"): series(*np.random.default_rng(0).random(100_000))})) < 20_000


def test_without_metrics() -> None:
    assert "No metrics yet" in texts(still(INFO, {}))


def test_heading() -> None:
    assert texts(still(INFO, {}))[0] == "mlp · ✓ succeeded · epoch 3/3 · 13 s"


def test_names_are_text_never_markup() -> None:
    info = RunInfo(id="r", name="<script>\x1b[1m&", cluster="c", tasks=[TaskInfo(task="worker:0")])
    picture = still(info, {("<b>", "worker:0"): series(1, 2)})
    assert "<script>" not in picture
    assert texts(picture)[0].startswith("<script>& · ")
    assert "<b>" in texts(picture)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (0, 900, [0, 200, 400, 600, 800]), (-1, 1, [-1, -0.5, 0, 0.5, 1])],
)
def test_ticks_are_round(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high, 4) == pytest.approx(expected)


class Growing(Series):
    """A series to which another thread adds a point whenever its values are read."""

    __slots__ = ()

    @property
    def value(self) -> np.ndarray:
        found = super().value
        end = np.array([float(len(self))])
        self.extend(Columns(end, end, end, np.array([len(self)])))
        return found


def test_a_series_may_grow_while_it_is_drawn() -> None:
    growing = Growing()
    step = np.arange(3.0)
    growing.extend(Columns(step, step, np.array([2.0, math.nan, 1.0]), np.arange(3)))
    (line,) = lines_of(still(INFO, {("loss", "worker:0"): growing}))
    assert line.get("d")
