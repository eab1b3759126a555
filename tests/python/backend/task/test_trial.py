"""Tests of what a trial's task checks when its program has ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_dtf.backend.task import trial
from jupyter_dtf.errors import InvalidInput


def test_the_chief_has_to_go_on_and_the_others_may_be_given_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "report_fits", lambda _ctx: trial.Fits())  # it changes Keras permanently
    context: Any = SimpleNamespace(is_chief=False, is_to_go_on=True, went_on=False)
    job = (lambda params, ctx: params["x"], {"x": 1.0}, ["value"], True)
    assert trial.run_trial(job, context) == 1.0
    context.is_chief = True
    with pytest.raises(InvalidInput, match=r"ctx\.restore"):
        trial.run_trial(job, context)
