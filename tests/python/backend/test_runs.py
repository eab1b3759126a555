"""A run's life as the controller keeps it, without a cluster."""

from __future__ import annotations

import time

import pytest

from jupyter_dtf.backend.plan import HostSlot, plan
from jupyter_dtf.backend.runs import Run
from jupyter_dtf.errors import IllegalTransition
from jupyter_dtf.schema.events import (
    Points,
    Progressed,
    RunChanged,
    TaskChanged,
    decode_event,
    encode_event,
    encode_points,
)
from jupyter_dtf.schema.launch import Outcome, TaskResult
from jupyter_dtf.schema.run import Progress, RunInfo, RunRequest, RunState, TaskState


class Recorded:
    """A run on two tasks, and what it published."""

    def __init__(self) -> None:
        self.published: list[tuple[int, bytes]] = []
        self.announced: list[RunState] = []
        info = RunInfo(id="r", name="r", cluster="c", jobs={"worker": 2})
        self.run = Run(
            info,
            RunRequest(),
            lambda _run, seq, data: self.published.append((seq, data)),
            lambda run: self.announced.append(run.info.state),
        )

    def launched(self) -> Run:
        self.run.place(plan({"worker": 2}, [HostSlot("tls://a:1", "a", "a", 2)]))
        self.run.to(RunState.LAUNCHING)
        for task in ("worker:0", "worker:1"):
            self.say(TaskChanged(time=time.time(), task=task, state=TaskState.RUNNING, pid=7))
        return self.run

    def say(self, event: TaskChanged | Points | Progressed) -> None:
        self.run.record_encoded(encode_event(event))


def test_every_event_gets_the_next_number_and_is_published() -> None:
    recorded = Recorded()
    run = recorded.launched()
    assert [seq for seq, _ in recorded.published] == list(range(len(run.log)))
    assert run.info.next_seq == len(run.log)
    assert isinstance(decode_event(run.log[2]), RunChanged)


def test_a_run_runs_when_all_its_tasks_do_and_succeeds_with_them() -> None:
    run = Recorded().launched()
    assert run.info.state is RunState.RUNNING
    run.task_ended(TaskResult(task="worker:0", exit_code=0, outcome=Outcome(ok=True, result=b"zero")))
    assert not run.decided.is_set()
    run.task_ended(TaskResult(task="worker:1", exit_code=0, outcome=Outcome(ok=True, result=b"one")))
    assert run.decided.is_set()
    assert run.tasks_ended.is_set()
    assert run.results == {"worker:0": b"zero", "worker:1": b"one"}


def test_the_first_failure_decides_and_what_is_ended_for_it_is_not_a_failure() -> None:
    run = Recorded().launched()
    failure = Outcome(ok=False, message="ValueError: no", traceback="Traceback ...", error="builtins.ValueError")
    run.task_ended(TaskResult(task="worker:1", exit_code=1, outcome=failure))
    assert run.decided.is_set()
    assert not run.tasks_ended.is_set()
    run.task_ended(TaskResult(task="worker:0", signal="SIGTERM"))
    assert run.tasks_ended.is_set()
    assert run.first_failure is run.task_info("worker:1")
    assert run.task_info("worker:0").state is TaskState.STOPPED
    assert run.task_info("worker:1").traceback == "Traceback ..."


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (TaskResult(task="worker:0", signal="SIGKILL"), "died (SIGKILL)"),
        (TaskResult(task="worker:0", exit_code=70), "died with exit status 70"),
    ],
)
def test_a_task_that_dies_without_a_word_has_failed(result: TaskResult, message: str) -> None:
    run = Recorded().launched()
    run.task_ended(result)
    assert run.task_info("worker:0").state is TaskState.FAILED
    assert run.task_info("worker:0").message == message


def test_points_pass_without_being_read_and_progress_is_kept() -> None:
    recorded = Recorded()
    run = recorded.launched()
    # Data that no decoder would take: it must travel untouched.
    garbled = encode_event(Points(time=0.0, task="worker:0", first=0, count=1, data=b"\xc1"))
    run.record_encoded(garbled)
    assert recorded.published[-1][1] is garbled
    assert encode_points([]) == b""
    recorded.say(Progressed(time=0.0, progress=Progress(done=3, total=9, epoch=1, epochs=2)))
    assert run.info.progress.done == 3


def test_an_ended_run_takes_no_further_step() -> None:
    recorded = Recorded()
    run = recorded.launched()
    run.to(RunState.FAILED, "why")
    assert run.ended.is_set()
    assert recorded.announced[-1] is RunState.FAILED
    with pytest.raises(IllegalTransition, match="A run that is failed can become nothing. Received: running"):
        run.to(RunState.RUNNING)


def states(recorded: Recorded, **tasks: TaskState) -> None:
    for task, state in tasks.items():
        recorded.say(TaskChanged(time=time.time(), task=task.replace("_", ":"), state=state))


def test_servers_are_kept_up_until_the_last_program_has_ended() -> None:
    recorded = Recorded()
    run = recorded.launched()
    states(recorded, worker_0=TaskState.FINISHED)
    assert not run.work_done.is_set()
    states(recorded, worker_1=TaskState.SERVING)
    assert run.work_done.is_set()
    assert not run.decided.is_set()


def test_a_task_that_has_ended_is_no_longer_waited_for() -> None:
    recorded = Recorded()
    run = recorded.launched()
    states(recorded, worker_1=TaskState.SERVING)
    assert not run.work_done.is_set()
    run.task_ended(TaskResult(task="worker:0", exit_code=0, outcome=Outcome(ok=True)))
    assert run.work_done.is_set()


def test_servers_without_work_of_their_own_wait_for_clients_until_they_are_stopped() -> None:
    recorded = Recorded()
    run = recorded.launched()
    assert not run.only_serves
    states(recorded, worker_0=TaskState.SERVING, worker_1=TaskState.SERVING)
    assert run.only_serves
    assert not run.work_done.is_set()
    run.to(RunState.STOPPING)
    assert run.work_done.is_set()
    assert not run.only_serves


def test_a_task_that_was_killed_after_its_program_had_succeeded_has_succeeded() -> None:
    recorded = Recorded()
    run = recorded.launched()
    states(recorded, worker_0=TaskState.FINISHED)
    run.task_ended(TaskResult(task="worker:0", signal="SIGTERM", outcome=Outcome(ok=True, result=b"zero")))
    assert run.task_info("worker:0").state is TaskState.SUCCEEDED
    assert run.results == {"worker:0": b"zero"}
