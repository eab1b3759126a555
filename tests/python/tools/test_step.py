"""``tools/step.py`` is quiet unless a step fails."""

from __future__ import annotations

import sys

import pytest

from tools import step


def test_a_step_that_succeeds_says_what_it_was_and_how_long_it_took(capfd: pytest.CaptureFixture[str]) -> None:
    program = "print('noise'); print('Downloading a file (3 MB)')"
    assert step.run("Making it (3 MB)", [sys.executable, "-c", program], pass_on="Downloading") == 0
    first, shown, last = capfd.readouterr().out.splitlines()
    assert (first, shown) == ("Making it (3 MB)", "  Downloading a file (3 MB)")
    assert last.startswith("  Making it: ") and last.endswith(" s")


def test_a_step_that_fails_says_all(capfd: pytest.CaptureFixture[str]) -> None:
    program = "import sys; print('before'); print('why', file=sys.stderr); sys.exit(3)"
    assert step.run("Making it", [sys.executable, "-c", program]) == 3
    output = capfd.readouterr().out
    assert "Making it has failed, with status 3:\n" in output and "before" in output and "why" in output


def test_a_long_step_says_now_and_then_that_it_goes_on(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "EVERY_S", 0.01)
    step.run("Making it", [sys.executable, "-c", "import time; time.sleep(0.2)"])
    assert "  Making it: 0 s so far\n" in capfd.readouterr().out
