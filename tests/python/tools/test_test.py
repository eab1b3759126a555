"""``tools/test.py`` runs all suites even if some fail, reports failures at the end, and leaves no files behind."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from tools import test as suites

LEAVE = "import os, pathlib, tempfile; print('noise'); pathlib.Path(tempfile.mkdtemp(), 'left').touch()"


@pytest.fixture(autouse=True)
def two_suites(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the suites with one that passes, and one that fails with status 3."""
    made = {
        "bad": [sys.executable, "-c", "print('why'); raise SystemExit(3)"],
        "good": [sys.executable, "-c", LEAVE],
    }
    monkeypatch.setattr(suites, "SUITES", made)


def test_a_failure_is_the_exit_status_and_the_next_suite_is_run_all_the_same(capfd: pytest.CaptureFixture[str]) -> None:
    assert suites.main([]) == 1
    summary = capfd.readouterr().out.split("== summary\n")[1].splitlines()
    assert [line.split()[:2] for line in summary] == [["bad", "FAILED"], ["good", "passed"]]


def test_the_exit_status_is_0_when_all_pass() -> None:
    assert suites.main(["good"]) == 0


def test_a_suite_that_does_not_exist_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert suites.main(["good", "none"]) == 2
    assert "A suite must be one of bad, good, got none" in capfd.readouterr().err


def test_a_suite_beside_the_first_is_heard_of_in_a_line_if_it_passes_and_in_full_if_not(
    capfd: pytest.CaptureFixture[str],
) -> None:
    suites.main(["good", "bad", "good"])
    beside = capfd.readouterr().out.split("== summary\n")[0]
    assert beside.count("noise") == 1  # only from the first, which has the terminal
    assert "== bad          FAILED (3)" in beside and "\nwhy\n" in beside
    assert "== good         passed" in beside


def test_what_suites_leave_in_the_temporary_directory_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert suites.main(["good", "good"]) == 0
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("arguments", "expected"), [(["said"], " -m 'not extended'"), (["--all", "said"], "none")])
def test_extended_tests_are_left_out_unless_all_are_asked_for(
    arguments: list[str], expected: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    say = "import os; print('options:', os.environ.get('PYTEST_ADDOPTS', 'none'))"
    monkeypatch.setattr(suites, "SUITES", {"said": [sys.executable, "-c", say]})
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    assert suites.main(arguments) == 0
    assert f"options: {expected}\n" in capfd.readouterr().out
