from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jupyter_dtf.client import wording
from jupyter_dtf.schema import sizes

READINGS: dict[str, list[list[Any]]] = json.loads(
    (Path(__file__).parents[2] / "readings.json").read_text(encoding="utf-8")
)
"""The expected texts. The tests of the frontend use the same file, because both format values alike."""


def _cases(what: str) -> Any:
    return pytest.mark.parametrize("case", READINGS[what], ids=lambda case: str(case[0]))


@_cases("number")
def test_number(case: tuple[Any, str]) -> None:
    assert sizes.number(float(case[0])) == case[1]


@_cases("duration")
def test_duration(case: tuple[Any, str]) -> None:
    assert sizes.duration(float(case[0])) == case[1]


@_cases("bytes")
def test_bytes(case: tuple[Any, str]) -> None:
    assert sizes.bytes_(float(case[0])) == case[1]


@_cases("metric")
def test_metric_value(case: tuple[str, Any, str]) -> None:
    assert wording.metric_value(case[0], float(case[1])) == case[2]


@_cases("title")
def test_metric_title(case: tuple[str, str]) -> None:
    assert wording.metric_title(case[0]) == case[1]


@_cases("jobs")
def test_jobs(case: tuple[dict[str, int], str]) -> None:
    assert wording.jobs(case[0]) == case[1]


def test_the_rules_are_javascripts_own() -> None:
    """Ties are rounded away from zero, and numbers are written as JavaScript's ``String(number)`` does."""
    assert [sizes.number(value) for value in (1234.5, 0.00012345, 1e21, -0.0)] == ["1235", "1.23e-4", "1e21", "0"]
    assert [sizes.duration(value) for value in (0.5, 2.5)] == ["1 s", "3 s"]


def test_control_characters_are_left_out() -> None:
    assert wording.without_control("\x1b[31mred\x1b[0m\x00 bell\x07\ttab\nline") == "red bell\ttab\nline"
