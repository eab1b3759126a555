"""A Hypothesis state machine that drives ``Run`` through long sequences of events and checks invariants after each.

``JUPYTER_DTF_MACHINE_STEPS=1000000`` makes about that many steps; the default is a few thousand.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jupyter_dtf.backend.cluster.active_run import Run
from jupyter_dtf.backend.planning.launch_plan import HostSlot, plan
from jupyter_dtf.backend.records.apply_event import apply_event, copy_of
from jupyter_dtf.backend.records.run_record import RunRecord
from jupyter_dtf.errors import Conflict, IllegalTransition
from jupyter_dtf.schema.events import (
    Logged,
    Note,
    Point,
    Points,
    Progressed,
    RunChanged,
    TaskChanged,
    decode_event,
    encode_event,
    encode_points,
)
from jupyter_dtf.schema.launch import Outcome, TaskResult
from jupyter_dtf.schema.restart import Restart
from jupyter_dtf.schema.run import Progress, RunDescriptor, RunInfo, RunRequest, RunState, TaskState

STEPS_OF_ONE = 60
STEPS = int(os.environ.get("JUPYTER_DTF_MACHINE_STEPS", "4000"))
TASKS = ("worker:0", "worker:1", "worker:2")
HOSTS = ("tls://a:1", "tls://b:1")
PLANNED = plan({"worker": 3}, [HostSlot(address, address, "lab", 2) for address in HOSTS])
OWN_ERROR = "ValueError: no"

ENDS: dict[str, dict[str, Any]] = {
    "ok": {"exit_code": 0, "outcome": Outcome(ok=True, result=b"r")},
    "killed": {"signal": "SIGKILL"},
    "frozen": {"signal": "SIGKILL", "message": "has been stopped (SIGSTOP) for 3 s"},
    "own error": {"exit_code": 1, "outcome": Outcome(ok=False, message=OWN_ERROR)},
    "exit": {"exit_code": 3},
    "peer": {"exit_code": 1, "outcome": Outcome(ok=False, message="gone", peer_lost=True)},
}
tasks = st.sampled_from(TASKS)
late = st.sampled_from([0, 0, 0, 0, 1, 2])
"""How many attempts ago a message was sent."""


class Viewer:
    """A viewer that starts in the middle of the log from the controller's summary, and applies the later events."""

    def __init__(self, info: RunInfo) -> None:
        self.info = copy_of(info)

    def take(self, log: Sequence[bytes], most: int) -> None:
        for data in log[self.info.next_seq : self.info.next_seq + most]:
            apply_event(self.info, decode_event(data))
            self.info.next_seq += 1


class RunMachine(RuleBasedStateMachine):
    """``Run``, driven one step at a time; hosts and tasks may report anything between two steps."""

    @initialize(max_restarts=st.integers(0, 4))
    def begin(self, max_restarts: int) -> None:
        self.descriptor = RunDescriptor(id="r", name="r", cluster="c")
        self.published: list[int] = []
        request = RunRequest(restart=Restart(max_restarts=max_restarts))
        self.run = Run(self.descriptor, request, lambda _run, seq, _data: self.published.append(seq), lambda _: None)
        self.viewers = [Viewer(self.run.info)]
        self.record = RunRecord(self.descriptor)
        self.ended_with: RunInfo | None = None
        self.attempts = dict.fromkeys(TASKS, 0)
        self.is_killing = self.goes_again = False
        self.restarted_for: list[str] = []
        self.numbered: dict[tuple[str, int], int] = {}
        self.curves: dict[str, list[tuple[float, float]]] = {}
        self.newest: dict[str, int] = {}
        self.states = [RunState.PENDING]

    # -- the driver's steps -------------------------------------------------------------------------------------

    @precondition(lambda self: self.run.info.state is RunState.PENDING)
    @rule()
    def launches(self) -> None:
        self.run.place(PLANNED)
        self.run.to(RunState.LAUNCHING)

    @precondition(lambda self: self.run.planned and self.run.is_active and self.run.decided.is_set())
    @rule()
    def drives(self) -> None:
        run = self.run
        if not self.is_killing:
            self.is_killing, self.goes_again = True, run.begins_again
            if self.goes_again:
                assert run.first_failure is not None
                self.restarted_for.append(run.first_failure.message)
                run.to(RunState.RESTARTING, "why")
        elif not run.tasks_ended.is_set():
            living = next(info for info in run.info.tasks if not info.state.is_final)
            run.task_ended(TaskResult(task=living.task, attempt=run.attempt, signal="SIGTERM"))
        elif self.goes_again and not run.is_stopping:
            run.place_again(PLANNED)
            self.is_killing = self.goes_again = False
        elif run.is_stopping:
            run.to(RunState.STOPPED)
        else:
            run.to(RunState.FAILED if run.first_failure is not None else RunState.SUCCEEDED)

    @precondition(lambda self: self.run.is_active and not self.run.is_stopping)
    @rule()
    def is_stopped(self) -> None:
        pending = self.run.info.state is RunState.PENDING
        self.run.to(RunState.STOPPED if pending else RunState.STOPPING)

    # -- what hosts and tasks say -------------------------------------------------------------------------------

    @precondition(lambda self: self.run.planned and self.run.is_active)
    @rule(task=tasks, behind=late, state=st.sampled_from(list(TaskState)))
    def says(self, task: str, behind: int, state: TaskState) -> None:
        self.tell(TaskChanged(time=1.0, task=task, attempt=max(self.run.attempt - behind, 0), state=state, pid=7))

    @precondition(lambda self: self.run.planned and self.run.is_active)
    @rule(task=tasks, behind=late, how=st.sampled_from(list(ENDS)), is_known=st.booleans())
    def ends(self, task: str, behind: int, how: str, is_known: bool) -> None:
        """Report the end of a task's process, possibly once more."""
        attempt = max(self.run.attempt - behind, 0)
        if how == "ok":  # a program that succeeds has reported before that it runs
            self.says(task, self.run.attempt - attempt, TaskState.RUNNING)
        self.run.task_ended(TaskResult(task=task, attempt=attempt if is_known or behind else None, **ENDS[how]))

    @precondition(lambda self: self.run.planned and self.run.is_active)
    @rule(address=st.sampled_from(HOSTS))
    def host_goes(self, address: str) -> None:
        for planned in self.run.by_host.get(address, ()):
            self.run.task_ended(TaskResult(task=planned.task), lost="its host went away")

    @precondition(lambda self: self.run.planned and self.run.is_active)
    @rule(task=tasks, behind=late, step=st.integers(0, 9), count=st.integers(1, 4), twice=st.booleans())
    def reports(self, task: str, behind: int, step: int, count: int, twice: bool) -> None:
        """Report some consecutive points, possibly twice. A later attempt may begin at any step."""
        attempt = max(self.run.attempt - behind, 0)
        first = self.numbered.get((task, attempt), 0)
        curve = self.curves.setdefault(task, [])
        is_new = attempt > self.newest.get(task, -1)
        begins = float(step) if is_new or not curve else curve[-1][0] + 1
        points = [Point(begins + i, 1.0, {"loss": attempt * 1000.0 + first + i}) for i in range(count)]
        event = Points(time=1.0, task=task, attempt=attempt, first=first, count=count, data=encode_points(points))
        for _ in range(1 + twice):
            self.tell(event)
        self.numbered[task, attempt] = first + count
        if attempt >= self.newest.get(task, 0):
            if is_new and attempt:
                curve = [point for point in curve if point[0] < begins]
            self.curves[task] = [*curve, *((point.step, point.values["loss"]) for point in points)]
            self.newest[task] = attempt

    @precondition(lambda self: self.run.planned and self.run.is_active)
    @rule(what=st.sampled_from(["line", "note", "progress", "of a newer version", "not its to say", "nothing"]))
    def says_something_else(self, what: str) -> None:
        match what:
            case "line":
                self.tell(Logged(time=1.0, task="worker:0", stream="stdout", first=0, lines=["here"]))
            case "note":
                self.tell(Note(time=1.0, level="warning", title="loss became NaN", metric="loss", step=3.0))
            case "progress":
                self.tell(Progressed(time=1.0, progress=Progress(done=3, total=9)))
            case "of a newer version":
                self.run.record_encoded(b"\x82\xa4type\xa4host\xa4time\xcb" + bytes(8))
            case "not its to say":
                with pytest.raises(Conflict):
                    self.run.record_encoded(encode_event(RunChanged(time=1.0, state=RunState.SUCCEEDED)))
            case _:
                with contextlib.suppress(Exception):
                    self.run.record_encoded(b"\xc1")

    def tell(self, event: Any) -> None:
        with contextlib.suppress(Conflict):  # the controller logs it
            self.run.record_encoded(encode_event(event))

    # -- viewers ------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.viewers) < 6)
    @rule()
    def somebody_comes(self) -> None:
        self.viewers.append(Viewer(self.run.info))

    @rule(which=st.integers(0, 5), most=st.integers(1, 50))
    def somebody_reads(self, which: int, most: int) -> None:
        self.viewers[which % len(self.viewers)].take(self.run.log, most)

    # -- what holds ---------------------------------------------------------------------------------------------

    @invariant()
    def numbers_have_no_gaps(self) -> None:
        assert self.published == list(range(len(self.run.log)))[: len(self.published)]
        assert len(self.published) == len(self.run.log) == self.run.info.next_seq

    @invariant()
    def steps_are_legal_and_an_end_is_final(self) -> None:
        run = self.run
        for data in run.log[self.record.next_seq :]:
            event = decode_event(data)
            if isinstance(event, RunChanged):
                self.states.append(self.states[-1].step(event.state))
            self.record.apply(self.record.next_seq, event)
        assert self.states[-1] is run.info.state
        if self.ended_with is not None:
            assert (run.info.state, run.info.tasks) == (self.ended_with.state, self.ended_with.tasks)
        elif not run.is_active:
            self.ended_with = copy_of(run.info)
            assert run.ended.is_set()

    @invariant()
    def attempts_only_grow(self) -> None:
        assert self.run.attempt <= self.run.request.restarts.max_restarts
        for info in self.run.info.tasks:
            assert self.attempts[info.task] <= info.attempt <= self.run.attempt
            self.attempts[info.task] = info.attempt

    @invariant()
    def it_is_known_when_nothing_more_is_to_be_waited_for(self) -> None:
        run = self.run
        if run.info.tasks:
            have_ended = all(info.state.is_final for info in run.info.tasks)
            assert run.tasks_ended.is_set() == have_ended
            has_failed = any(info.state is TaskState.FAILED for info in run.info.tasks)
            assert run.decided.is_set() == (have_ended or has_failed)
            assert run.work_done.is_set() or not run.decided.is_set()

    @invariant()
    def an_error_of_ones_own_is_not_tried_again(self) -> None:
        assert 0 <= len(self.restarted_for) - self.run.attempt <= 1
        assert not {OWN_ERROR, "died with exit status 3"} & set(self.restarted_for)

    def teardown(self) -> None:
        """Check that the run ends whatever has happened, and that all viewers and the record agree with it."""
        run = self.run
        if run.info.state is RunState.PENDING:
            self.launches()
        for _ in range(10 * (run.request.restarts.attempts + 1)):
            if run.is_active and not run.decided.is_set():
                for task in TASKS:
                    run.task_ended(TaskResult(task=task, attempt=run.attempt, **ENDS["killed"]))
            if run.is_active:
                self.drives()
        self.steps_are_legal_and_an_end_is_final()
        assert run.info.state.is_final
        assert all(info.state.is_final for info in run.info.tasks)
        for viewer in self.viewers:
            viewer.take(run.log, len(run.log))
            assert viewer.info == run.info
        assert self.record.info.state is run.info.state
        assert self.record.info.tasks == run.info.tasks
        assert not self.record.lost
        found = {task: list(zip(line.step, line.value, strict=True)) for (_, task), line in self.record.series.items()}
        assert found == {task: curve for task, curve in self.curves.items() if curve}


TestRunMachine = RunMachine.TestCase
TestRunMachine.settings = settings(
    deadline=None,
    max_examples=max(STEPS // STEPS_OF_ONE, 1),
    stateful_step_count=STEPS_OF_ONE,
    suppress_health_check=list(HealthCheck),
)


def test_a_run_that_has_ended_takes_no_step() -> None:
    run = Run(RunDescriptor(id="r", name="r", cluster="c"), RunRequest(), lambda *_: None, lambda _: None)
    run.to(RunState.STOPPED)
    for state in RunState:
        with pytest.raises(IllegalTransition):
            run.to(state)
