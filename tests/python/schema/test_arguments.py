"""Tests of the argument checks that many functions share."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.arguments import check_addresses, check_integer, check_path, check_seconds, plain


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (np.int64(3), 3),
        (np.uint8(3), 3),
        (np.float64(0.5), 0.5),
        (np.float32(0.5), 0.5),
        (Fraction(1, 2), 0.5),
        ({"worker": np.int64(1), "ps": [np.int32(2)]}, {"worker": 1, "ps": [2]}),
        ((np.int64(1), 2), (1, 2)),
        ("text", "text"),
        (True, True),
        (None, None),
    ],
)
def test_numbers_of_any_library_become_pythons(given: Any, wanted: Any) -> None:
    found = plain(given)
    assert found == wanted
    assert type(found) is type(wanted)
    assert repr(found) == repr(wanted)


def test_booleans_are_no_numbers() -> None:
    assert plain(np.True_) is np.True_


def test_addresses() -> None:
    assert check_addresses("192.0.2.7", "clients") == ["192.0.2.7"]
    given = ["gpu-1.example.org", "2001:db8::1", "[2001:db8::1]", "localhost"]
    assert check_addresses(tuple(given), "clients") == given
    assert check_addresses((), "clients") == []


def test_paths(tmp_path: Path) -> None:
    assert check_path(tmp_path, "path") == check_path(str(tmp_path), "path") == tmp_path
    with pytest.raises(InvalidInput, match="`design` must be a path, got 3"):
        check_path(3, "design")


@pytest.mark.parametrize("given", ["1", math.nan, True, [1]])
def test_what_is_no_time(given: Any) -> None:
    with pytest.raises(InvalidInput, match="`timeout_s` must be a number of seconds, or None, got"):
        check_seconds(given, "timeout_s")


def test_times() -> None:
    assert check_seconds(None, "timeout_s") is check_seconds(math.inf, "timeout_s") is None
    assert check_seconds(np.float32(0.5), "timeout_s") == 0.5
    assert check_seconds(-1, "timeout_s") == 0


@pytest.mark.parametrize("given", [1, 3, np.int64(2), np.uint8(1)])
def test_integers(given: Any) -> None:
    checked = check_integer(given, "x", 1, 3)
    assert (type(checked), checked) == (int, given)


@pytest.mark.parametrize(
    ("given", "range_", "words"),
    [
        (0, (1,), "`n` must be an integer >= 1, or None, got 0"),
        (4, (1, 3), "`n` must be an integer from 1 to 3, or None, got 4"),
        (True, (0,), "`n` must be an integer >= 0, or None, got True"),
        (2.0, (0,), "`n` must be an integer >= 0, or None, got 2.0"),
        ("2", (0,), "`n` must be an integer >= 0, or None, got '2'"),
    ],
)
def test_what_is_no_integer_in_the_range(given: Any, range_: tuple[int, ...], words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_integer(given, "where.n", *range_, note=", or None")
    assert (str(refused.value), refused.value.field) == (words, "where.n")
