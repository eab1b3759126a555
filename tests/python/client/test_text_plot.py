"""Tests of plots that are drawn as text."""

from __future__ import annotations

import numpy as np
import pytest

from jupyter_dtf.client.text_plot import Line, plot


def line(*values: float, dashed: bool = False) -> Line:
    return Line(np.arange(float(len(values))), np.array(values, dtype=float), dashed)


def test_a_line_goes_from_its_least_to_its_greatest() -> None:
    rising = plot([line(0, 1, 2, 3)], 12, 2)
    assert rising == ["       3  ⢠⠊", "       0 ⡠⠚"]
    assert plot([line(3, 2, 1, 0)], 12, 2, plain=True)[0].startswith("       3 *")


def test_many_lines_share_their_axes_and_a_dashed_one_has_gaps() -> None:
    shared = plot([line(*[0.0] * 50), line(*[1.0] * 50, dashed=True)], 9 + 25, 3, plain=True)
    top, middle, bottom = (row[9:] for row in shared)
    assert bottom == "*" * 25
    assert middle.strip() == ""
    assert 0 < top.count(" ") < 25 - 5


@pytest.mark.parametrize("values", [(), (np.nan, np.inf)])
def test_nothing_to_draw_is_blank(values: tuple[float, ...]) -> None:
    assert plot([line(*values)], 20, 3) == ["", "", ""]


def test_a_constant_and_a_gap_are_drawn() -> None:
    rows = plot([line(2, np.nan, 2)], 20, 3)
    assert sum(character > "\u2800" for row in rows for character in row) > 0
    assert all(len(row) <= 20 for row in rows)
    assert len(plot([line(1e300, -1e300)], 20, 3)) == 3
