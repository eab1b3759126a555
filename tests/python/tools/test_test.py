"""``tools/test.py`` runs every suite, whatever fails, and says so at the end."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROGRAM = Path(__file__).parents[3] / "tools" / "test.py"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program, with two suites: one that passes and one that fails with status 3."""
    spec = importlib.util.spec_from_file_location("tools_test", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    suites = {"bad": [sys.executable, "-c", "raise SystemExit(3)"], "good": [sys.executable, "-c", ""]}
    monkeypatch.setattr(module, "SUITES", suites)
    return module


def test_a_failure_is_the_exit_status_and_the_next_suite_is_run_all_the_same(
    tool: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    assert tool.main([]) == 1
    summary = capfd.readouterr().out.split("== summary\n")[1].splitlines()
    assert [line.split()[:2] for line in summary] == [["bad", "FAILED"], ["good", "passed"]]


def test_the_exit_status_is_0_when_all_pass(tool: ModuleType) -> None:
    assert tool.main(["good"]) == 0


def test_a_suite_that_does_not_exist_is_refused(tool: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["good", "none"]) == 2
    assert "A suite is one of bad, good. Received: none" in capfd.readouterr().err
