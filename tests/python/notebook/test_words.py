from __future__ import annotations

import math

import pytest

from jupyter_dtf.notebook import words
from jupyter_dtf.schema.sizes import bytes_


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.031234, "0.03123"), (12_500, "12.5k"), (3e-5, "3e-05"), (0, "0"), (2.5e6, "2.5M"), (-20_000, "-20k")],
)
def test_number(value: float, text: str) -> None:
    assert words.number(value) == text


def test_number_that_is_none() -> None:
    assert [words.number(value) for value in (math.nan, math.inf, -math.inf)] == ["nan", "∞", "-∞"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(41, "41 s"), (72, "1m 12s"), (7_500, "2h 05m"), (3 * 86_400 + 4 * 3_600, "3d 04h"), (-1, "0 s")],
)
def test_duration(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (900, "900 B"), (1.2 * 2**30, "1.2 GiB"), (2**50, "1.0 PiB")])
def test_bytes(count: float, text: str) -> None:
    assert bytes_(count) == text


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("memory_bytes", 2**20, "1.0 MiB"),
        ("examples_per_second", 9_110.5, "9110/s"),
        ("step_seconds", 0.0032, "3.2 ms"),
        ("step_seconds", 3.5, "3.5 s"),
        ("loss", 0.5, "0.5"),
    ],
)
def test_metric_value(metric: str, value: float, text: str) -> None:
    assert words.metric_value(metric, value) == text


def test_control_characters_are_left_out() -> None:
    assert words.without_control("\x1b[31mred\x1b[0m\x00 bell\x07\ttab\nline") == "red bell\ttab\nline"
