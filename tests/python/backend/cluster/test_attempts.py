"""A run reaches the right end whatever its tasks report and however they end, in any order of events."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_dtf.backend.cluster.active_run import Run
from jupyter_dtf.backend.planning.launch_plan import HostSlot, plan
from jupyter_dtf.backend.records.run_record import RunRecord
from jupyter_dtf.errors import Conflict
from jupyter_dtf.schema.events import Point, Points, TaskChanged, decode_event, encode_event, encode_points
from jupyter_dtf.schema.launch import Outcome, TaskResult
from jupyter_dtf.schema.restart import Restart
from jupyter_dtf.schema.run import RunDescriptor, RunRequest, RunState, TaskState

TASKS = ("worker:0", "worker:1", "worker:2")
PLANNED = plan({"worker": 3}, [HostSlot("tls://a:1", "a", "a", 2), HostSlot("tls://b:1", "b", "b", 2)])
OWN_ERROR = Outcome(ok=False, message="ValueError: no")

ends: dict[str, dict[str, Any]] = {
    "ok": {"exit_code": 0, "outcome": Outcome(ok=True, result=b"r")},
    "killed": {"signal": "SIGKILL"},
    "frozen": {"signal": "SIGKILL", "message": "has been stopped (SIGSTOP) for 3 s"},
    "own error": {"exit_code": 1, "outcome": OWN_ERROR},
    "exit": {"exit_code": 3},
    "peer": {"exit_code": 1, "outcome": Outcome(ok=False, message="gone", peer_lost=True)},
}
task, attempt_off = st.sampled_from(TASKS), st.sampled_from([0, 0, 0, 0, 1])
steps = st.one_of(
    st.tuples(st.just("says"), task, attempt_off, st.sampled_from(["running", "serving", "finished"])),
    st.tuples(st.just("reports"), task, attempt_off, st.just("")),
    st.tuples(st.just("ends"), task, attempt_off, st.sampled_from(list(ends))),
    st.tuples(st.just("host"), st.sampled_from(["tls://a:1", "tls://b:1"]), st.just(0), st.just("")),
    st.tuples(st.sampled_from(["drive"] * 5 + ["stop"]), st.just(""), st.just(0), st.just("")),
)


class Driven:
    """A run that is driven one step at a time, as by ``Driver``; any event may come between two steps."""

    def __init__(self, max_restarts: int, *, rejoins: bool = False) -> None:
        request = RunRequest(restart=Restart(max_restarts=max_restarts), rejoins=rejoins)
        self.descriptor = RunDescriptor(id="r", name="r", cluster="c")
        self.run = Run(self.descriptor, request, lambda *_: None, lambda _: None)
        self.run.place(PLANNED)
        self.run.to(RunState.LAUNCHING)
        self.killing = self.again = False
        self.blamed: list[tuple[str, str]] = []
        self.alone = 0

    def drive(self) -> None:
        run = self.run
        if not run.to_rejoin.empty():
            self.rejoin(run.to_rejoin.get_nowait())
            return
        if not run.is_active or not run.decided.is_set():
            return
        if not self.killing:
            self.killing = True
            failure = run.first_failure
            self.blamed.append((failure.task, failure.message) if failure is not None else ("", ""))
            self.again = run.begins_again
            if self.again:
                run.to(RunState.RESTARTING, "why")
        elif not run.tasks_ended.is_set():
            for info in list(run.info.tasks):
                if not info.state.is_final:
                    run.task_ended(TaskResult(task=info.task, attempt=info.attempt, signal="SIGTERM"))
                    return
        elif self.again and not run.is_stopping:
            run.place_again(PLANNED)
            self.killing = self.again = False
        elif run.first_failure is not None:
            run.to(RunState.STOPPED if run.is_stopping else RunState.FAILED)
        else:
            run.to(RunState.STOPPED if run.is_stopping else RunState.SUCCEEDED)

    def rejoin(self, task: str) -> None:
        """Fork a task again as ``Rejoining`` does, unless the run no longer needs it or there is no room."""
        run, info = self.run, self.run.task_info(task)
        if run.is_stopping or run.decided.is_set():
            run.task_ended(TaskResult(task=task, attempt=info.attempt, message="was not started again"))
        elif info.attempt % 3 == 2:
            run.cannot_rejoin(task, info.attempt, "was not started: no host")
        else:
            run.record(TaskChanged(time=1.0, task=task, attempt=info.attempt, state=TaskState.STARTING, pid=7))
            self.alone += 1

    def follow(self, step: tuple[str, str, int, str]) -> None:
        what, who, behind, how = step
        attempt = (self.run.task_info(who).attempt if who in TASKS else self.run.attempt) - behind
        match what:
            case "drive":
                self.drive()
            case "stop" if self.run.is_active and not self.run.is_stopping:
                self.run.to(RunState.STOPPING)
            case "host" if self.run.is_active:
                for planned in self.run.by_host.get(who, ()):
                    self.run.task_ended(TaskResult(task=planned.task), lost="its host went away")
            case "ends" if self.run.is_active and attempt >= 0:
                if how == "ok":  # a program that succeeds has reported before that it runs
                    self.follow(("says", who, behind, "running"))
                self.run.task_ended(TaskResult(task=who, attempt=attempt, **ends[how]))
            case "says" | "reports" if self.run.is_active and attempt >= 0:
                event: Any = TaskChanged(time=1.0, task=who, attempt=attempt, state=TaskState(how or "running"))
                if what == "reports":
                    data = encode_points([Point(1.0, 1.0, {"loss": 1.0})])
                    event = Points(time=1.0, task=who, attempt=attempt, first=0, count=1, data=data)
                with contextlib.suppress(Conflict):  # the controller logs it
                    self.run.record_encoded(encode_event(event))


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 3), st.lists(steps, max_size=80))
def test_every_order_of_events_comes_to_the_right_end(max_restarts: int, order: list[Any]) -> None:
    driven = Driven(max_restarts)
    run = driven.run
    for step in order:
        before, was = run.attempt, run.info.state
        driven.follow(step)
        assert before <= run.attempt <= before + 1
        assert run.attempt <= max_restarts
        if was.is_final:
            assert run.info.state is was
        assert not (driven.again and run.info.state is RunState.RUNNING), "the old gang is being ended"
    for _ in range(10 * (max_restarts + 2)):
        driven.drive()
        if run.is_active and not run.decided.is_set():  # end the remaining tasks
            for name in TASKS:
                driven.follow(("ends", name, 0, "own error"))
    assert run.info.state.is_final
    assert all(task.state.is_final for task in run.info.tasks)
    restarted = driven.blamed[:-1]
    assert len(restarted) == run.attempt
    assert not [message for _, message in restarted if message in (OWN_ERROR.message, "died with exit status 3")]

    assert [decode_event(data) is not None for data in run.log] == [True] * run.info.next_seq
    record = RunRecord.replay(driven.descriptor, enumerate(run.log))
    assert record.info.state is run.info.state
    assert record.info.tasks == run.info.tasks
    assert not record.lost
    assert {task.attempt for task in record.info.tasks} == {run.attempt}


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 4), st.lists(steps, max_size=80))
def test_so_does_a_run_whose_tasks_are_started_again_alone(max_restarts: int, order: list[Any]) -> None:
    driven = Driven(max_restarts, rejoins=True)
    run = driven.run
    for step in order:
        was, attempt = run.info.state, run.attempt
        chief = run.task_info("worker:0").attempt
        driven.follow(step)
        assert run.attempt <= max_restarts
        assert run.attempt >= attempt
        assert chief == run.task_info("worker:0").attempt or run.info.state is not RunState.RUNNING
        if was.is_final:
            assert run.info.state is was
    for _ in range(10 * (max_restarts + 2)):
        driven.drive()
        if run.is_active and not run.decided.is_set() and run.to_rejoin.empty():
            for name in TASKS:
                driven.follow(("ends", name, 0, "own error"))
    assert run.info.state.is_final
    assert all(task.state.is_final for task in run.info.tasks)
    record = RunRecord.replay(driven.descriptor, enumerate(run.log))
    assert record.info.tasks == run.info.tasks
    assert driven.alone <= run.attempt


def test_a_worker_that_dies_is_started_again_alone_and_the_run_goes_on() -> None:
    driven = Driven(2, rejoins=True)
    run = driven.run
    for name in TASKS:
        driven.follow(("says", name, 0, "running"))
    driven.follow(("ends", "worker:1", 0, "killed"))
    assert run.info.state is RunState.RUNNING
    assert run.task_info("worker:1").state is TaskState.PENDING
    driven.drive()
    driven.follow(("says", "worker:1", 0, "running"))
    assert [task.attempt for task in run.info.tasks] == [0, 1, 0]
    for name in ("worker:0", "worker:2"):
        driven.follow(("ends", name, 0, "ok"))
    assert not run.decided.is_set(), "its share is not done"
    driven.follow(("ends", "worker:1", 0, "ok"))
    driven.drive()
    driven.drive()
    assert run.info.state.value == "succeeded"


def test_who_cannot_be_started_alone_begins_the_whole_gang_again() -> None:
    for who, how in (("worker:0", "killed"), ("worker:1", "peer")):
        driven = Driven(2, rejoins=True)
        for name in TASKS:
            driven.follow(("says", name, 0, "running"))
        driven.follow(("ends", who, 0, how))
        assert driven.run.begins_again
        assert driven.run.to_rejoin.empty()
    driven = Driven(2, rejoins=True)
    for name in TASKS:
        driven.follow(("says", name, 0, "running"))
    driven.follow(("ends", "worker:1", 0, "killed"))
    driven.run.cannot_rejoin("worker:1", 1, "was not started: no room")
    assert driven.run.begins_again
    assert driven.run.first_failure is not None
    assert driven.run.first_failure.message == "was not started: no room"
