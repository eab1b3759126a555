"""Detection of stalled runs, and of the task to blame, from what hosts report about their quiet tasks."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_dtf.backend.cluster.active_run import Run
from jupyter_dtf.backend.cluster.stalls import Stalls
from jupyter_dtf.backend.planning.launch_plan import HostSlot, plan
from jupyter_dtf.schema.events import TaskChanged
from jupyter_dtf.schema.launch import Quiet, TaskResult
from jupyter_dtf.schema.restart import Restart
from jupyter_dtf.schema.run import RunInfo, RunRequest, RunState, TaskState

A, B = "tls://a:1", "tls://b:1"


def running(request: RunRequest) -> Run:
    run = Run(RunInfo(id="r", name="r", cluster="c"), request, lambda *_: None, lambda _: None)
    run.place(plan({"worker": 2}, [HostSlot(A, "a", "a", 1), HostSlot(B, "b", "b", 1)]))
    run.to(RunState.LAUNCHING)
    for task in ("worker:0", "worker:1"):
        run._task_changed(TaskChanged(time=1.0, task=task, state=TaskState.RUNNING))
    return run


def quiet(task: str, seconds: float, **more: Any) -> list[Quiet]:
    return [Quiet(id=f"r/{task}", seconds=seconds, **{"steps": 9, "longest_s": 0.1, **more})]


FIT = RunRequest(kind="fit", restart=Restart(stalled_after=10.0))


@pytest.mark.parametrize(
    ("zero", "one", "blamed"),
    [
        (quiet("worker:0", 12, waits=True), quiet("worker:1", 11), (B, "worker:1")),
        (quiet("worker:0", 12), quiet("worker:1", 11, waits=True), (A, "worker:0")),
        (quiet("worker:0", 12), quiet("worker:1", 13), (B, "worker:1")),
        (quiet("worker:0", 12, waits=True), quiet("worker:1", 9), None),
        (quiet("worker:0", 12, waits=True), [], None),
        (quiet("worker:0", 12, waits=True), quiet("worker:1", 11, waits=True), None),
        (quiet("worker:0", 12, waits=True), quiet("worker:1", 11, steps=1), None),
        (quiet("worker:0", 12, waits=True), quiet("worker:1", 11, longest_s=4.0), None),
    ],
)
def test_who_does_not_wait_is_to_blame(zero: list[Quiet], one: list[Quiet], blamed: tuple[str, str] | None) -> None:
    run, stalls = running(FIT), Stalls()
    stalls.tells(A, zero)
    stalls.tells(B, one)
    found = stalls.blamed(run)
    assert (found and found[:2]) == blamed
    if found is not None:
        assert found[2].endswith("s and uses no CPU time, and the others wait")


@pytest.mark.parametrize("state", [TaskState.SUCCEEDED, TaskState.FINISHED])
@pytest.mark.parametrize("request_", [FIT, RunRequest()], ids=["fit", "program"])
def test_a_task_that_waits_for_one_that_has_ended_waits_in_vain(request_: RunRequest, state: TaskState) -> None:
    run, stalls = running(request_), Stalls()
    stalls.tells(B, quiet("worker:1", 11, waits=True, steps=0))
    assert stalls.blamed(run) is None
    run._task_changed(TaskChanged(time=1.0, task="worker:0", state=state))
    found = stalls.blamed(run)
    assert found is not None
    assert found[:2] == (B, "worker:1")
    assert found[2].startswith(
        "has waited in a collective for 11 s, and the program has ended on worker:0: all tasks must"
    )
    stalls.tells(B, quiet("worker:1", 9, waits=True, steps=0))
    assert stalls.blamed(run) is None


def test_a_task_that_has_ended_or_only_serves_is_not_waited_for() -> None:
    run, stalls = running(FIT), Stalls()
    stalls.tells(B, quiet("worker:1", 11))
    assert stalls.blamed(run) is None
    run._task_changed(TaskChanged(time=1.0, task="worker:0", state=TaskState.SERVING))
    found = stalls.blamed(run)
    assert found == (B, "worker:1", "has completed no step for 11 s and uses no CPU time")


def test_a_host_that_is_gone_and_an_attempt_that_is_over_say_nothing() -> None:
    run, stalls = running(FIT), Stalls()
    stalls.tells(A, quiet("worker:0", 12))
    stalls.tells(B, quiet("worker:1", 12))
    assert stalls.blamed(run) is not None
    stalls.gone(A)
    assert stalls.blamed(run) is None
    stalls.tells(A, quiet("worker:0", 12))
    run.task_ended(TaskResult(task="worker:1", signal="SIGKILL"))
    run.to(RunState.RESTARTING)
    assert stalls.blamed(run) is None
    run.place_again(run.planned)
    for task in ("worker:0", "worker:1"):
        run._task_changed(TaskChanged(time=1.0, task=task, attempt=1, state=TaskState.RUNNING))
    assert run.info.state is RunState.RUNNING
    assert stalls.blamed(run) is None


@pytest.mark.parametrize(
    ("request_", "after_s"),
    [
        (RunRequest(kind="fit"), 600.0),
        (RunRequest(kind="fit", restart=Restart(max_restarts=0)), 600.0),
        (RunRequest(), None),
        (RunRequest(restart=Restart(max_restarts=0)), None),
        (RunRequest(restart=Restart()), 600.0),
        (RunRequest(restart=Restart(max_restarts=0, stalled_after=5)), 5.0),
    ],
)
def test_a_program_of_which_nothing_is_known_may_wait(request_: RunRequest, after_s: float | None) -> None:
    assert request_.stalled_after_s == after_s
    run, stalls = running(request_), Stalls()
    stalls.tells(A, quiet("worker:0", 1e6))
    stalls.tells(B, quiet("worker:1", 1e6))
    assert (stalls.blamed(run) is None) == (after_s is None)
