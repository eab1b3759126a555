"""The state machine of ``active_run.Run``, tested without a cluster."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from jupyter_dtf.backend.cluster.active_run import Run
from jupyter_dtf.backend.planning.launch_plan import HostSlot, plan
from jupyter_dtf.backend.records import media_tail
from jupyter_dtf.backend.records.kept_media import KeptMedia
from jupyter_dtf.backend.records.output_tail import ENDED_BYTES, MOST_BYTES
from jupyter_dtf.errors import Conflict, IllegalTransition
from jupyter_dtf.schema.events import (
    FAST_AGAIN,
    SLOW,
    Logged,
    Note,
    Picture,
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
from jupyter_dtf.schema.run import Progress, RunInfo, RunRequest, RunState, TaskState

PLANNED = plan({"worker": 2}, [HostSlot("tls://a:1", "a", "a", 2)])


class Recorded:
    """A run of two tasks that records what it publishes and announces."""

    def __init__(self, restart: Restart | None = None) -> None:
        self.published: list[tuple[int, bytes]] = []
        self.announced: list[RunState] = []
        info = RunInfo(id="r", name="r", cluster="c", jobs={"worker": 2})
        self.run = Run(
            info,
            RunRequest(restart=restart),
            lambda _run, seq, data: self.published.append((seq, data)),
            lambda run: self.announced.append(run.info.state),
        )

    def launched(self) -> Run:
        self.run.place(PLANNED)
        self.run.to(RunState.LAUNCHING)
        self.all_run()
        return self.run

    def all_run(self) -> None:
        for task in ("worker:0", "worker:1"):
            self.say(TaskChanged(time=time.time(), task=task, state=TaskState.RUNNING, pid=7, attempt=self.run.attempt))

    def say(self, event: TaskChanged | Points | Progressed | Note) -> None:
        self.run.record_encoded(encode_event(event))


def test_every_event_gets_the_next_number_and_is_published() -> None:
    recorded = Recorded()
    run = recorded.launched()
    assert [seq for seq, _ in recorded.published] == list(range(len(run.log)))
    assert run.info.next_seq == len(run.log)
    assert isinstance(decode_event(run.log[2]), RunChanged)


def test_output_is_bounded_and_numbers_have_no_gaps() -> None:
    recorded = Recorded()
    run = recorded.launched()
    before = len(run.log)
    for number in range(400):
        event = Logged(time=1.0, task="worker:0", stream="stdout", first=number, lines=[f"{number:010000}"])
        run.record_encoded(encode_event(event))
    assert [seq for seq, _ in recorded.published] == list(range(before + 400))
    logged = [decode_event(data) for data in run.log[before:]]
    assert all(isinstance(event, Logged) for event in logged)
    kept = [event.first for event in logged if isinstance(event, Logged) and event.lines]
    assert kept == list(range(400 - MOST_BYTES // 10_090, 400))
    assert len({id(data) for data in run.log[before : before + 150]}) == 1  # all dropped events share one object
    for task in ("worker:0", "worker:1"):
        run.task_ended(TaskResult(task=task, outcome=Outcome(ok=True)))
    run.to(RunState.SUCCEEDED)
    assert sum(map(len, run.log)) < ENDED_BYTES + 100_000


def test_pictures_are_bounded_and_none_goes_before_the_archive_has_it() -> None:
    recorded = Recorded()
    run = recorded.launched()
    before, size = len(run.log), 1 << 18

    def report(count: int) -> None:
        for _ in range(count):
            png = len(run.log).to_bytes(4, "big") * (size // 4)
            picture = Picture(time=1.0, task="worker:0", name="input", step=1, png=png, width=8, height=8)
            run.record_encoded(encode_event(picture))

    def kept() -> list[int]:
        return [seq for seq, data in enumerate(run.log) if len(data) > size]

    report(100)
    assert kept() == list(range(before, before + 100))  # a burst of 25 MiB that the archive has not taken yet
    run.log.taken(before + 10)
    assert kept() == list(range(before + 10, before + 100))
    run.log.taken(before + 100)
    room = media_tail.MOST_BYTES // (size + 200)
    assert kept() == list(range(before + 100 - room, before + 100))
    report(400)  # that the archive does not take
    assert sum(map(len, run.log)) < media_tail.MOST_NOT_TAKEN + 100_000
    assert [seq for seq, _ in recorded.published] == list(range(before + 500))
    run.log.taken(len(run.log))
    run.to(RunState.FAILED)
    assert sum(map(len, run.log)) < media_tail.ENDED_BYTES + 100_000
    late = KeptMedia()  # what a viewer without a store keeps
    for data in run.log:
        if isinstance(event := decode_event(data), Picture):
            late.add(event)
    assert [len(series.steps) for series in late.overview()] == [len(kept())]


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
    # Data that cannot be decoded must be passed on unchanged.
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
    with pytest.raises(IllegalTransition, match="A run that is failed can only become nothing, got running"):
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


@pytest.mark.parametrize(
    "event",
    [
        RunChanged(time=0.0, state=RunState.SUCCEEDED),
        TaskChanged(time=0.0, task="worker:1", state=TaskState.SUCCEEDED),
        TaskChanged(time=0.0, task="worker:1", state=TaskState.LOST),
    ],
)
def test_an_end_is_not_a_tasks_to_tell(event: RunChanged | TaskChanged) -> None:
    run = Recorded().launched()
    before = len(run.log)
    with pytest.raises(Conflict):
        run.record_encoded(encode_event(event))
    assert (len(run.log), run.info.state) == (before, RunState.RUNNING)


def test_a_run_ends_though_nobody_can_be_told() -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no room")

    run = Recorded().launched()
    run._publish = run._on_step = fail
    for task in ("worker:0", "worker:1"):
        run.task_ended(TaskResult(task=task, exit_code=0, outcome=Outcome(ok=True)))
    assert run.tasks_ended.is_set()
    run.to(RunState.SUCCEEDED)
    assert run.ended.is_set()


def test_a_lost_run_has_lost_tasks() -> None:
    run = Recorded().launched()
    run.task_ended(TaskResult(task="worker:0", exit_code=0, outcome=Outcome(ok=True)))
    run.to(RunState.LOST, "The cluster c was killed (SIGKILL)")
    states = [(task.state, task.message) for task in run.info.tasks]
    assert states == [(TaskState.SUCCEEDED, ""), (TaskState.LOST, "The cluster c was killed (SIGKILL)")]


def test_what_several_tasks_tell_of_a_metric_is_told_once_and_where_it_was_first() -> None:
    recorded = Recorded()
    run = recorded.launched()

    def tell(task: str, metric: str, step: float) -> int:
        title = f"{metric} became NaN at step {step:g} on {task}"
        recorded.say(Note(time=1.0, level="warning", title=title, task=task, metric=metric, step=step))
        return len(run.log)

    before = len(run.log)
    assert tell("worker:0", "loss", 9) == before + 1
    assert tell("worker:1", "loss", 9) == tell("worker:1", "epoch_loss", 40) == before + 1
    assert tell("worker:1", "loss", 8) == before + 2  # an earlier step, reported later
    assert tell("worker:0", "val_loss", 40) == before + 3
    assert run.info.not_finite == {
        "loss": "loss became NaN at step 8 on worker:1",
        "val_loss": "val_loss became NaN at step 40 on worker:0",
    }


def test_only_the_attempt_that_is_under_way_is_heard() -> None:
    recorded = Recorded()
    run = recorded.launched()
    run.record(TaskChanged(time=1.0, task="worker:1", state=TaskState.STARTING, attempt=1))
    before = len(run.log)
    recorded.say(TaskChanged(time=1.0, task="worker:1", state=TaskState.FINISHED))
    run.task_ended(TaskResult(task="worker:1", attempt=0, signal="SIGKILL"))
    assert (len(run.log), run.task_info("worker:1").state) == (before, TaskState.STARTING)
    recorded.say(TaskChanged(time=1.0, task="worker:1", state=TaskState.RUNNING, attempt=1))
    run.task_ended(TaskResult(task="worker:1", attempt=1, outcome=Outcome(ok=True, result=b"one")))
    info = run.task_info("worker:1")
    assert (info.state, info.attempt, run.results) == (TaskState.SUCCEEDED, 1, {"worker:1": b"one"})
    with pytest.raises(IllegalTransition, match="succeeded can only become nothing, unless it is restarted"):
        recorded.say(TaskChanged(time=1.0, task="worker:1", state=TaskState.FINISHED, attempt=1))


FAILURE = Outcome(ok=False, message="ValueError: no", traceback="Traceback ...", error="builtins.ValueError")


@pytest.mark.parametrize(
    ("result", "lost", "is_lost"),
    [
        (TaskResult(task="worker:1", signal="SIGKILL"), "", True),
        (TaskResult(task="worker:1", signal="SIGKILL", message="was killed for want of memory"), "", True),
        (TaskResult(task="worker:1", message="has ended; the reason is unknown"), "", True),
        (TaskResult(task="worker:1"), "its host b went away", True),
        (TaskResult(task="worker:1", exit_code=1, outcome=Outcome(ok=False, peer_lost=True)), "", True),
        (TaskResult(task="worker:1", exit_code=1, outcome=FAILURE), "", False),
        (TaskResult(task="worker:1", exit_code=3), "", False),
        (TaskResult(task="worker:1", exit_code=0, message="has ended, and its result cannot be sent"), "", False),
    ],
)
def test_a_run_begins_again_when_a_task_is_lost_and_not_by_its_own_error(
    result: TaskResult, lost: str, is_lost: bool
) -> None:
    for restart, begins in ((Restart(), is_lost), (Restart(max_restarts=0), False), (None, False)):
        run = Recorded(restart).launched()
        run.task_ended(result, lost=lost)
        assert run.decided.is_set()
        assert run.begins_again == begins


def test_a_new_attempt_is_a_gang_of_its_own() -> None:
    recorded = Recorded(Restart(max_restarts=1))
    run = recorded.launched()
    run.record_encoded(encode_event(Logged(time=1.0, task="worker:0", stream="stdout", first=3, lines=["a", "b"])))
    run.task_ended(TaskResult(task="worker:0", exit_code=0, outcome=Outcome(ok=True, result=b"zero")))
    run.task_ended(TaskResult(task="worker:1", signal="SIGKILL"))
    run.to(RunState.RESTARTING, "worker:1 died (SIGKILL): attempt 2 of 2 begins")
    run.place_again(PLANNED)
    assert (run.attempt, run.attempt_words, run.first_failure, run.results) == (1, "attempt 2 of 2", None, {})
    assert not run.decided.is_set()
    assert not run.tasks_ended.is_set()
    assert [(task.state, task.attempt, task.pid) for task in run.info.tasks] == [(TaskState.PENDING, 1, 0)] * 2
    assert run.log.lines_printed() == {"worker:0": {"stdout": 5}}
    run.task_ended(TaskResult(task="worker:1", attempt=0, signal="SIGKILL"))  # late, from the previous attempt
    assert not run.decided.is_set()
    recorded.all_run()
    assert (run.info.state, run.info.message) == (RunState.RUNNING, "attempt 2 of 2")
    run.task_ended(TaskResult(task="worker:0", attempt=1, signal="SIGKILL"))
    assert run.decided.is_set()
    assert not run.begins_again, "both attempts are used"


def test_a_task_that_rejoins_a_run_with_fewer_workers_leaves_the_others_missing() -> None:
    recorded = Recorded(Restart(max_restarts=1))
    run = recorded.launched()
    for task in ("worker:0", "worker:1"):
        run.task_ended(TaskResult(task=task, signal="SIGKILL"))
    run.to(RunState.RESTARTING)
    (left,) = run.planned[:1]
    run.place_again([left])
    assert run.missing == ["worker:1"]
    run.reseat(replace(left, host=HostSlot("tls://b:1", "b", "b", 2)))
    assert run.missing == ["worker:1"]
    assert [task.host.name for task in run.gang] == ["b", "a"]


def test_a_run_that_is_being_stopped_does_not_begin_again() -> None:
    run = Recorded(Restart()).launched()
    run.task_ended(TaskResult(task="worker:1", signal="SIGKILL"))
    run.to(RunState.STOPPING)
    assert not run.begins_again
    with pytest.raises(IllegalTransition, match="must be restarting to begin another attempt, got 'stopping'"):
        run.place_again(PLANNED)


def test_a_task_that_runs_while_its_gang_is_being_ended_does_not_make_the_run_run() -> None:
    recorded = Recorded(Restart())
    run = recorded.run
    run.place(PLANNED)
    run.to(RunState.LAUNCHING)
    run.task_ended(TaskResult(task="worker:0", signal="SIGKILL"))
    run.to(RunState.RESTARTING)
    recorded.say(TaskChanged(time=1.0, task="worker:1", state=TaskState.RUNNING))
    assert run.info.state is RunState.RESTARTING


def test_what_a_loss_has_cost_is_told_with_the_first_step_of_a_later_attempt() -> None:
    recorded = Recorded(Restart())
    run = recorded.launched()

    def progressed(done: int, attempt: int) -> None:
        recorded.say(Progressed(time=time.time(), attempt=attempt, progress=Progress(done=done, total=50)))

    def again(lost: str) -> None:
        run.task_ended(TaskResult(task=lost, signal="SIGKILL"))
        run.to(RunState.RESTARTING)
        run.place_again(PLANNED)
        recorded.all_run()

    def told() -> list[str]:
        return [event.title for _, data in recorded.published if isinstance(event := decode_event(data), Note)]

    run.note("warning", "worker:1 takes long", task="worker:1", mark=SLOW)
    run.note("info", "", task="worker:1", mark="of another kind")
    progressed(30, 0)
    assert run.info.slow == {"worker:1": "worker:1 takes long"}
    again("worker:1")
    assert run.info.slow == {}
    progressed(20, 1)
    again("worker:0")  # before the first step
    progressed(31, 0)  # late, from the first attempt
    progressed(20, 2)
    assert told() == ["worker:1 takes long", ""]
    progressed(21, 2)
    progressed(22, 2)
    assert told()[2:] == ["Continues after step 20: about 10 steps are repeated"]
    run.note("warning", "worker:1 takes long", task="worker:1", mark=SLOW)
    run.note("info", "worker:1 is fast", task="worker:1", mark=FAST_AGAIN)
    assert run.info.slow == {}
