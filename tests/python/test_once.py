"""Tests of values that are made once for all test files of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import once


def test_what_is_kept_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[list[str]] = []

    def make(names: list[str]) -> dict[str, str]:
        made.append(names)
        return {name: name.upper() for name in names}

    monkeypatch.setenv(once.DIRECTORY, str(tmp_path))
    assert once.each("letters", ["a", "b"], make) == {"a": "A", "b": "B"}
    assert once.each("letters", ["b", "c/d"], make) == {"b": "B", "c/d": "C/D"}
    assert once.each("others", ["b"], make) == {"b": "B"}
    assert made == [["a", "b"], ["c/d"], ["b"]]
    monkeypatch.delenv(once.DIRECTORY)
    once.each("letters", ["a"], make)
    assert made[3:] == [["a"]]


def test_what_fails_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(once.DIRECTORY, str(tmp_path))

    def fail(names: list[str]) -> dict[str, str]:
        raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        once.each("letters", ["a"], fail)
    assert once.each("letters", ["a"], lambda names: {"a": "made"}) == {"a": "made"}
