"""Forecasts match published figures within 15%, and the table in the documentation is up to date."""

from __future__ import annotations

import statistics
from pathlib import Path

from tests.python.backend.planning import published

PAGE = Path(__file__).parents[4] / "docs" / "forecast.md"
OFF = {
    ("one P100", "AlexNet", 1),
    ("one K80", "Inception V3", 1),
    ("DGX-1, P100", "AlexNet", 8),
}
"""Figures that are further off, each with its reason in the documentation."""
MOST, MEDIAN = 0.15, 0.08


def test_published_figures_are_met() -> None:
    rows = list(published.rows())
    assert {(row.what, row.model, row.devices) for row in rows if abs(row.off) > MOST} == OFF
    assert statistics.median(abs(row.off) for row in rows) < MEDIAN


def test_the_table_in_the_documentation_is_what_the_laws_say() -> None:
    assert published.table() in PAGE.read_text(encoding="utf-8"), (
        "python -m tests.python.backend.planning.published prints the table that docs/forecast.md should have"
    )
