from __future__ import annotations

import re
from typing import Any

import pytest

import jupyter_dtf as dtf
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.base import convert, to_plain
from jupyter_dtf.schema.restart import NEVER, STALLED_AFTER_S
from jupyter_dtf.schema.run import RunRequest
from jupyter_dtf.schema.run_options import RunOptions


@pytest.mark.parametrize(
    ("fields", "message", "field"),
    [
        ({"max_restarts": -1}, "`max_restarts` must be an integer >= 0, got -1", "restart.max_restarts"),
        ({"max_restarts": True}, "`max_restarts` must be an integer >= 0, got True", "restart.max_restarts"),
        ({"max_restarts": "3"}, "`max_restarts` must be an integer >= 0, got '3'", "restart.max_restarts"),
        (
            {"stalled_after": 0},
            "`stalled_after` must be a number of seconds >= 1, or None (600), got 0",
            "restart.stalled_after",
        ),
        ({"stalled_after": float("nan")}, "or None (600), got nan", "restart.stalled_after"),
        ({"stalled_after": float("inf")}, "or None (600), got inf", "restart.stalled_after"),
        ({"stalled_after": "long"}, "or None (600), got 'long'", "restart.stalled_after"),
        ({"min_workers": 0}, ">= 1, or None (wait for capacity), got 0", "restart.min_workers"),
        ({"min_workers": True}, ">= 1, or None (wait for capacity), got True", "restart.min_workers"),
    ],
)
def test_a_wrong_value_states_the_rule_and_what_was_received(fields: dict[str, Any], message: str, field: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)) as caught:
        dtf.Restart(**fields)
    assert caught.value.field == field


def test_only_a_training_goes_on_with_fewer_workers() -> None:
    restart = dtf.Restart(min_workers=2)
    assert RunRequest(kind="fit", strategy="ps", restart=restart).restarts.min_workers == 2
    with pytest.raises(InvalidInput, match=re.escape("except for cluster.fit, got 2 for a program")) as caught:
        RunRequest(kind="program", restart=restart)
    assert caught.value.field == "restart.min_workers"


def test_min_workers_may_not_be_more_than_there_are() -> None:
    jobs = {"chief": 1, "worker": 2, "ps": 1}
    restart = dtf.Restart(min_workers=3)
    assert RunRequest(kind="fit", strategy="ps", jobs=jobs, restart=restart).restarts.min_workers == 3
    with pytest.raises(InvalidInput, match="`min_workers` must be at most the number of workers, 3, got 4"):
        RunRequest(kind="fit", strategy="ps", jobs=jobs, restart=dtf.Restart(min_workers=4))


def test_attempts_count_the_first() -> None:
    assert (dtf.Restart().attempts, NEVER.attempts) == (4, 1)
    assert dtf.Restart().stalled_after_s == STALLED_AFTER_S
    assert dtf.Restart(stalled_after=2).stalled_after_s == 2


@pytest.mark.parametrize(
    ("kind", "restarts"), [("fit", dtf.Restart()), ("program", NEVER), ("script", NEVER), ("servers", NEVER)]
)
def test_what_is_usual_depends_on_whether_a_run_can_go_on_by_itself(kind: str, restarts: dtf.Restart) -> None:
    assert RunRequest(kind=kind).restarts == restarts
    asked = RunOptions.among({"restart": dtf.Restart(max_restarts=7)}).restart
    assert RunRequest(kind=kind, restart=asked).restarts.max_restarts == 7


def test_true_is_what_is_usual_and_false_is_never() -> None:
    assert RunOptions.among({"restart": True}).restart == dtf.Restart()
    assert RunOptions.among({"restart": False}).restart == NEVER
    assert RunOptions.among({"restart": None}).restart is None


def test_it_travels_with_a_request() -> None:
    request = RunRequest(kind="fit", restart=dtf.Restart(max_restarts=1, stalled_after=30.0))
    assert convert(to_plain(request), RunRequest) == request
