"""Tests of what a search in the foreground shows, without a cluster."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jupyter_dtf.client.search import watching
from jupyter_dtf.client.search.optuna_trials import AskedTrials
from jupyter_dtf.client.search.search import Search

from ...patience import left_s
from .test_optuna_trials import SPACE, a_study, succeeded, trains


class ASearch:
    """A search whose trials end when the test says so."""

    def __init__(self, directory: Path) -> None:
        study = a_study()
        self.asked = AskedTrials(study, trains, SPACE, ["value"], None, keeps=False)
        self.search = Search("hunt", "here", ["value"], ["rate"], study)
        self.search._asked = self.asked
        self.search._runs = cast(Any, SimpleNamespace(message=""))
        self._directory = directory

    def end_trial(self, value: float) -> None:
        following = self.asked.next()
        assert following is not None
        self.asked.ended(succeeded(following.number, self._directory, value))

    def end(self) -> None:
        self.search._done.set()
        self.asked.tell_change()


def test_what_changes_while_a_search_is_drawn_is_shown_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, screen = ASearch(tmp_path), io.StringIO()
    one.end_trial(3.0)
    changes = iter([lambda: one.end_trial(2.0), one.end])

    def wait(timeout: float | None = None) -> bool:
        raise AssertionError("There has been a change, but it is waited for")

    monkeypatch.setattr(one.asked.changed, "wait", wait)
    monkeypatch.setattr("time.sleep", lambda seconds: next(changes)())
    monkeypatch.setattr(sys, "stderr", screen)
    watching.in_terminal(one.search)
    assert screen.getvalue().splitlines() == [
        "hunt running  1 trials  best value 3 (trial 0)",
        "hunt running  2 trials  best value 2 (trial 1)",
        "hunt finished  2 trials  best value 2 (trial 1)",
    ]


def test_without_a_count_the_next_change_is_waited_for(tmp_path: Path) -> None:
    one = ASearch(tmp_path)
    one.end_trial(1.0)
    assert one.search.wait_for_change(0.0) is False
    assert one.search.wait_for_change(left_s(), 0) is False
    one.end()
    assert one.search.wait_for_change(left_s()) is True
