from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from jupyter_dtf.errors import Conflict, IllegalTransition, InvalidInput
from jupyter_dtf.schema.run import Progress, RunDescriptor, RunInfo, RunRequest, RunState, TaskState

LEGAL = {
    "pending": "launching stopped failed lost",
    "launching": "running restarting stopping failed lost",
    "running": "restarting succeeded stopping pausing failed lost",
    "restarting": "running restarting stopping paused failed lost",
    "pausing": "paused stopping stopped succeeded failed lost",
    "paused": "restarting stopped failed lost",
    "stopping": "stopped succeeded failed lost",
}


@pytest.mark.parametrize("state", RunState)
def test_a_run_takes_the_steps_of_its_life_and_no_others(state: RunState) -> None:
    legal = LEGAL.get(state.value, "").split()
    for to in RunState:
        if to.value in legal:
            assert state.step(to) is to
            continue
        with pytest.raises(IllegalTransition, match=f"A run that is {state.value} can only become .*got {to.value}"):
            state.step(to)
    assert state.is_final == (not legal)
    assert issubclass(IllegalTransition, Conflict)


def test_every_run_can_come_to_an_end_in_every_way_that_is_not_success() -> None:
    for state, end in itertools.product(RunState, (RunState.FAILED, RunState.LOST)):
        assert state.is_final or state.step(end) is end


def test_a_state_with_no_step_says_so() -> None:
    with pytest.raises(IllegalTransition, match="can only become nothing"):
        RunState.SUCCEEDED.step(RunState.RUNNING)


def test_final_states_of_a_task() -> None:
    assert {state.value for state in TaskState if state.is_final} == {"succeeded", "failed", "stopped", "lost"}


def test_a_task_that_has_ended_takes_no_step_unless_it_is_started_again() -> None:
    for state, to in itertools.product(TaskState, TaskState):
        legal = not state.is_final and to is not TaskState.PENDING
        if legal:
            assert state.step(to) is to
            continue
        with pytest.raises(IllegalTransition, match=f"A task that is {state.value} can only become .*got {to.value}"):
            state.step(to)
    assert all(state.step(TaskState.STARTING, again=True) is TaskState.STARTING for state in TaskState)
    with pytest.raises(IllegalTransition, match="can only become failed, pending, running, starting"):
        TaskState.FAILED.step(TaskState.SUCCEEDED, again=True)


def test_a_summary_is_a_descriptor_and_what_events_have_told() -> None:
    run = RunDescriptor(id="r", name="n", cluster="c", kind="fit", jobs={"worker": 2}, created=5.0, run_dir="/r")
    info = RunInfo.of(run)
    assert info == RunInfo(id="r", name="n", cluster="c", kind="fit", jobs={"worker": 2}, created=5.0, run_dir="/r")
    info.state, info.next_seq = RunState.RUNNING, 3
    assert info.descriptor == run


def test_descriptions_share_nothing() -> None:
    one, two = (RunInfo(id=i, name="", cluster="") for i in "ab")
    one.progress.done = 5
    one.latest["loss"] = 1.0
    assert two.progress == Progress()
    assert two.latest == {}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"threads_per_task": -1}, "`threads_per_task` must be an integer >= 0 (0: equal shares), got -1"),
        ({"stop_grace_s": -0.5}, "`stop_grace_s` must be a number of seconds >= 0, got -0.5"),
        ({"gpus_per_task": -1}, "`gpus_per_task` must be an integer >= 0, or None (equal shares), got -1"),
        ({"gpus_per_task": 0.5}, "`gpus_per_task` must be an integer >= 0, or None (equal shares), got 0.5"),
        ({"gpu_memory": 1000}, "`gpu_memory` must be an integer number of bytes >= 1048576, or a fraction"),
        ({"gpu_memory": 1.5}, "1.0 of a GPU, got 1.5"),
        ({"gpu_memory": "8GB"}, "got '8GB'"),
        ({"gpu_memory": 0.5, "gpus_per_task": 0}, "`gpu_memory` must be None with gpus_per_task=0, got 0.5"),
    ],
)
def test_a_request_states_the_rule_and_the_value(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)) as caught:
        RunRequest(**fields)
    assert caught.value.field == next(iter(fields))


def test_a_place_is_shared_by_so_many_and_only_one_place() -> None:
    assert RunRequest(jobs={"worker": 1}, places=1, place_shares=64).place_shares == 64
    for places, shares in ((1, 65), (1, 0), (1, -3), (2, 2), (0, 2)):
        with pytest.raises(InvalidInput, match="place_shares"):
            RunRequest(jobs={"worker": 1}, places=places, place_shares=shares)
