from __future__ import annotations

import re
from typing import Any

import pytest

from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.run import RunRequest
from jupyter_dtf.schema.run_options import RunOptions


def test_options_are_found_among_arguments() -> None:
    arguments = {"self": object(), "jobs": {"worker": 1}, "name": "", "trace_steps": (2, 3), "gpus_per_task": None}
    assert RunOptions.among(arguments) == RunOptions(jobs={"worker": 1}, trace_steps=[2, 3])
    assert RunOptions.among({"jobs": None, "environment": None, "trace_steps": None}) == RunOptions()


def test_options_share_nothing_with_the_arguments() -> None:
    jobs = {"worker": 1}
    RunOptions.among({"jobs": jobs}).jobs["worker"] = 2
    assert jobs == {"worker": 1}


def test_a_request_is_checked_as_its_options_are() -> None:
    for kind in (RunOptions, RunRequest):
        with pytest.raises(InvalidInput, match=r"`threads_per_task` must be an integer >= 0 \(0: equal shares\)"):
            kind(threads_per_task=-1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"jobs": 3}, "`jobs` must be a mapping, got 3"),
        ({"environment": "A=1"}, "`environment` must be a mapping, got 'A=1'"),
        ({"environment": {"A=B": "1"}}, "The names in `environment` must not be empty or contain =, got 'A=B'"),
        ({"threads_per_task": "2"}, "`threads_per_task` must be an integer >= 0 (0: equal shares), got '2'"),
        ({"threads_per_task": True}, "`threads_per_task` must be an integer >= 0 (0: equal shares), got True"),
        ({"stop_grace_s": float("nan")}, "`stop_grace_s` must be a number of seconds >= 0, got nan"),
        ({"stop_grace_s": "long"}, "`stop_grace_s` must be a number of seconds >= 0, got 'long'"),
        ({"checkpoint": "often"}, "`checkpoint` must be a dtf.Checkpoint, True or False, got 'often'"),
        ({"trace_steps": 3}, "`trace_steps` must be (first, last), two integers, got 3"),
        ({"restart": 3}, "`restart` must be a dtf.Restart, True, False or None (the default for the run), got 3"),
        ({"gpus_per_task": True}, "`gpus_per_task` must be an integer >= 0, or None (equal shares), got True"),
    ],
)
def test_a_wrong_option_states_the_rule_and_the_value(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)) as caught:
        RunOptions.among(arguments)
    assert caught.value.field == next(iter(arguments))
