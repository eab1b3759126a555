from __future__ import annotations

import math
import sys
from typing import Any

import msgspec
import numpy as np
import pytest

from jupyter_dtf.backend.records.output_tail import MOST_BYTES
from jupyter_dtf.backend.records.run_record import RunRecord
from jupyter_dtf.errors import Conflict
from jupyter_dtf.schema.events import AnyEvent, EpochEnded, Logged, Note, Points, RunChanged, TaskChanged, last_epochs
from jupyter_dtf.schema.run import RunState, TaskInfo, TaskState

from .run_events import T0, encoded, points, run_info, short_run


def record_of(*events: Points) -> RunRecord:
    record = RunRecord(run_info())
    for seq, event in enumerate(events):
        record.apply(seq, event)
    return record


def test_events_make_the_record_whatever_the_description_said_before() -> None:
    info = run_info(state=RunState.RUNNING, next_seq=77, latest={"x": 1.0}, message="old")
    record = RunRecord.replay(info, encoded(short_run()))
    assert info.next_seq == 77  # the caller's object is unchanged
    assert record.next_seq == len(short_run())
    assert record.info.state is RunState.SUCCEEDED
    assert record.info.message == ""
    assert (record.info.started, record.info.ended) == (T0 + 1, T0 + 4)
    assert [(t.task, t.state, t.host) for t in record.info.tasks] == [
        ("worker:0", TaskState.SUCCEEDED, "h0"),
        ("worker:1", TaskState.SUCCEEDED, "h1"),
    ]
    assert record.info.progress.done == 3
    assert record.info.latest == {"loss": 1.5}
    assert record.info.sparkline == [3.0, 2.0, 1.0]
    assert record.lost == {}


def test_events_are_given_after_a_number_without_points() -> None:
    record = RunRecord.replay(run_info(), encoded(short_run()))
    seqs = [seq for seq, _ in record.events()]
    assert seqs == [0, 1, 2, 3, 6, 7, 8, 9, 10]
    assert not any(isinstance(event, Points) for _, event in record.events())
    assert [seq for seq, _ in record.events(after=3)] == [6, 7, 8, 9, 10]
    assert [seq for seq, _ in record.events(after=4)] == [6, 7, 8, 9, 10]
    assert record.events(after=10) == []


@pytest.mark.parametrize("seq", [0, 2, -1])
def test_a_gap_or_a_repeat_is_refused(seq: int) -> None:
    record = record_of(points("worker:0", 0, [{"loss": 1}]))
    with pytest.raises(Conflict, match=f"without gaps: `seq` must be 1 for r1, got {seq}"):
        record.apply(seq, Note(time=T0, level="info", title="x"))


def test_points_become_columns_in_the_order_of_their_first_appearance() -> None:
    record = record_of(
        points("worker:0", 0, [{"loss": 1, "acc": 0.1}, {"loss": 2, "acc": 0.2}]),
        points("worker:0", 2, [{"loss": 3}, {"val_loss": 9}, {}, {"loss": 4, "acc": 0.4}]),
    )
    assert list(record.series) == [("loss", "worker:0"), ("acc", "worker:0"), ("val_loss", "worker:0")]
    loss = record.series["loss", "worker:0"]
    assert loss.value.tolist() == [1, 2, 3, 4]
    assert loss.step.tolist() == [0, 1, 2, 5]
    assert loss.seq.tolist() == [0, 1, 2, 5]
    assert loss.time.tolist() == [T0, T0 + 1, T0 + 2, T0 + 5]
    assert record.series["val_loss", "worker:0"].seq.tolist() == [3]
    assert record.info.latest == {"loss": 4, "acc": 0.4, "val_loss": 9}


def test_points_that_never_came_are_counted_and_points_that_came_twice_are_not_doubled() -> None:
    record = record_of(
        points("worker:0", 0, [{"a": 0}, {"a": 1}]),
        points("worker:0", 1, [{"a": 1}, {"a": 2}]),
        points("worker:0", 0, [{"a": 0}]),
        points("worker:0", 5, [{"a": 5}]),
        points("worker:1", 0, [{"a": 0}]),
    )
    assert record.series["a", "worker:0"].seq.tolist() == [0, 1, 2, 5]
    assert record.lost == {"worker:0": 2}


def test_a_damaged_batch_costs_its_points_only() -> None:
    damaged = Points(time=T0, task="worker:0", first=1, count=3, data=b"\xff\xff")
    record = record_of(points("worker:0", 0, [{"a": 0}]), damaged, points("worker:0", 4, [{"a": 4}]))
    assert record.series["a", "worker:0"].seq.tolist() == [0, 4]
    assert record.lost == {"worker:0": 3}


def test_points_without_values_are_no_series() -> None:
    record = record_of(points("worker:0", 0, [{}, {}]))
    assert record.series == {}
    assert record.lost == {}
    assert record.info.sparkline == []


def test_the_sparkline_turns_to_the_loss_once_there_is_one() -> None:
    record = record_of(points("worker:0", 0, [{"acc": 0.5}]))
    assert record.info.sparkline == [0.5]
    record.apply(1, points("worker:0", 1, [{"acc": 0.6, "loss": 7.0}]))
    assert record.info.sparkline == [7.0]


def test_nothing_of_the_machine_stands_for_a_run() -> None:
    record = record_of(points("worker:0", 0, [{"cpu": 0.97, "memory_bytes": 1e9}]))
    assert record.info.headline == {}
    assert record.info.sparkline == []
    record.apply(1, points("worker:0", 1, [{"score": 7.0}, {"cpu": 0.5}]))
    assert record.info.headline == {"score": 7.0}
    assert record.info.sparkline == [7.0]


def test_the_headline_of_an_ended_run_has_the_epoch_s_values() -> None:
    record = record_of(points("worker:0", 0, [{"loss": 3.0}, {"epoch_loss": 2.0, "val_loss": 4.0}, {"loss": 9.0}]))
    assert record.info.headline == {"loss": 9.0, "val_loss": 4.0}
    record.apply(1, RunChanged(time=T0, state=RunState.LAUNCHING))
    record.apply(2, RunChanged(time=T0, state=RunState.FAILED))
    assert record.info.headline == {"loss": 2.0, "val_loss": 4.0}


def test_nan_is_kept_as_a_point_and_left_out_of_the_sparkline() -> None:
    record = record_of(points("worker:0", 0, [{"loss": 1.0}, {"loss": math.nan}]))
    assert math.isnan(record.series["loss", "worker:0"].value[1])
    assert math.isnan(record.info.latest["loss"])
    assert record.info.sparkline == [1.0]


def test_lines_have_the_mean_where_several_tasks_report() -> None:
    record = RunRecord.replay(run_info(), encoded(short_run()))
    record.apply(record.next_seq, points("worker:0", 3, [{"val_loss": 1.0}]))
    lines = record.lines()
    assert list(lines) == [("loss", ""), ("loss", "worker:0"), ("loss", "worker:1"), ("val_loss", "worker:0")]
    np.testing.assert_array_equal(lines["loss", ""].value, [3.5, 2.5, 1.5])
    assert record.mean("val_loss") is None
    assert record.mean("unknown") is None


def test_the_mean_goes_on_when_a_task_has_ended() -> None:
    record = record_of(points("worker:0", 0, [{"a": 1}] * 3), points("worker:1", 0, [{"a": 3}]))
    mean = record.mean("a")
    assert mean is not None
    assert mean.value.tolist() == [2]
    record.apply(2, TaskChanged(time=T0, task="worker:1", state=TaskState.SUCCEEDED))
    mean = record.mean("a")
    assert mean is not None
    assert mean.value.tolist() == [2, 1, 1]


def test_the_output_that_is_kept_is_bounded() -> None:
    record = RunRecord(run_info())
    for seq in range(0, 2000, 2):
        short = [f"{seq}"] * 100  # a string of one character takes as much memory as sixty
        record.apply(seq, Logged(time=T0, task="worker:0", stream="stdout", first=seq * 100, lines=short))
        record.apply(seq + 1, Note(time=T0, level="info", title=str(seq)))
    events = record.events()
    logged = [(seq, event) for seq, event in events if isinstance(event, Logged)]
    assert sum(sys.getsizeof(line) for _, event in logged for line in event.lines) <= MOST_BYTES
    assert [seq for seq, _ in logged] == list(range(2000 - 2 * len(logged), 2000, 2))
    assert len(events) - len(logged) == 1000
    assert [seq for seq, _ in events] == sorted(seq for seq, _ in events)
    assert record.events(1990) == events[-9:]
    assert record.events(-1, 10) == events[:10]
    record.apply(2000, Logged(time=0.0, task="worker:0", stream="stdout", first=0, lines=[]))  # its lines were dropped
    assert record.events(1999) == []
    assert record.next_seq == 2001


def test_a_task_that_starts_again_continues_its_series_and_replaces_what_it_repeats() -> None:
    """Points of a second attempt are numbered from 0 again, and must not be dropped as duplicates."""
    losses = [{"loss": float(9 - i)} for i in range(6)]
    record = record_of(
        points("worker:0", 0, losses),
        points("worker:1", 0, losses[:2]),
        points("worker:0", 0, [{"loss": 5.5}, {"loss": 4.5}], steps=[3, 4], attempt=1, begun=T0 + 60),
        points("worker:0", 1, [{"loss": 4.5}, {"loss": 3.5}], steps=[4, 5], attempt=1, begun=T0 + 60),  # one came twice
        points("worker:0", 5, [{"loss": 0.5}], steps=[8], attempt=1, begun=T0 + 60),
    )
    loss = record.series["loss", "worker:0"]
    assert loss.step.tolist() == [0, 1, 2, 3, 4, 5, 8]
    assert loss.value.tolist() == [9, 8, 7, 5.5, 4.5, 3.5, 0.5]
    assert loss.attempt.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert loss.seq.tolist() == [0, 1, 2, 0, 1, 2, 5]
    assert record.lost == {"worker:0": 2}
    assert record.info.sparkline == loss.value.tolist()
    (before,) = record.replaced(["loss", "accuracy"]).items()
    assert before[0] == ("loss", "worker:0", 0)
    assert (before[1].step.tolist(), before[1].value.tolist()) == ([3, 4, 5], [6, 5, 4])
    record.apply(5, points("worker:0", 6, [{"loss": 99.0}]))  # of the first attempt, late
    assert record.series["loss", "worker:0"] is loss
    assert len(loss) == 7
    assert record.lost == {"worker:0": 2}


def test_what_was_done_twice_is_known_of_each_attempt() -> None:
    record = record_of(
        points("worker:0", 0, [{"loss": float(i)} for i in range(6)]),
        points("worker:0", 0, [{"loss": 10.0 + i} for i in range(4)], steps=[4, 5, 6, 7], attempt=1),
        points("worker:0", 0, [{"loss": 20.0}], steps=[2], attempt=2),
    )
    found = {key[2]: (series.step.tolist(), series.value.tolist()) for key, series in record.replaced(["loss"]).items()}
    assert found == {0: ([2, 3, 4, 5], [2, 3, 4, 5]), 1: ([4, 5, 6, 7], [10, 11, 12, 13])}
    assert record.series["loss", "worker:0"].step.tolist() == [0, 1, 2]


def test_what_an_attempt_has_repeated_is_in_no_mean_and_what_was_handed_out_stays() -> None:
    record = record_of(*(points(f"worker:{i}", 0, [{"a": 1.0}] * 4) for i in (0, 1)))
    before, mean = record.series["a", "worker:0"].value, record.mean("a")
    assert mean is not None
    for i in (0, 1):
        record.apply(2 + i, points(f"worker:{i}", 0, [{"a": 3.0}] * 3, steps=[2, 3, 4], attempt=1))
    again = record.mean("a")
    assert again is not None
    assert (again.step.tolist(), again.value.tolist()) == ([0, 1, 2, 3, 4], [1, 1, 3, 3, 3])
    assert before.tolist() == mean.value.tolist() == [1] * 4


def test_the_machine_s_metrics_of_all_attempts_stay_one_after_the_other() -> None:
    record = record_of(
        points("worker:0", 0, [{"cpu": 0.5}, {"cpu": 0.6}], steps=[2, 4]),
        points("worker:0", 0, [{"cpu": 0.7}], steps=[2], attempt=2, begun=T0 + 11),  # 10 s after the last
        points("worker:0", 1, [{"cpu": 0.8}], steps=[4], attempt=2, begun=T0 + 12),
    )
    cpu = record.series["cpu", "worker:0"]
    assert cpu.step.tolist() == [2, 4, 14, 16]
    assert cpu.value.tolist() == [0.5, 0.6, 0.7, 0.8]
    assert cpu.attempt.tolist() == [0, 0, 2, 2]


def test_a_task_s_new_attempt_begins_it_anew_and_late_words_of_an_earlier_one_are_not_heard() -> None:
    def changed(state: TaskState, attempt: int = 0, **more: Any) -> TaskChanged:
        return TaskChanged(time=T0, task="worker:0", state=state, attempt=attempt, **more)

    record = RunRecord(run_info())
    events: list[AnyEvent] = [
        changed(TaskState.RUNNING, host="a", pid=7, endpoint="a:1"),
        RunChanged(time=T0, state=RunState.RUNNING),
        changed(TaskState.FAILED, signal="SIGKILL", message="died (SIGKILL)"),
        RunChanged(time=T0 + 1, state=RunState.RESTARTING),
        changed(TaskState.STARTING, 1, host="b"),
        changed(TaskState.RUNNING, 1, pid=8),
        changed(TaskState.FINISHED),
        RunChanged(time=T0 + 2, state=RunState.RUNNING),
    ]
    for seq, event in enumerate(events):
        record.apply(seq, event)
    assert record.info.tasks == [TaskInfo(task="worker:0", state=TaskState.RUNNING, attempt=1, host="b", pid=8)]
    assert (record.info.state, record.info.started) == (RunState.RUNNING, T0)
    assert [event.attempt for _, event in record.events() if isinstance(event, TaskChanged)] == [0, 0, 1, 1, 0]


def test_the_epochs_of_a_later_attempt_take_the_place_of_those_they_repeat() -> None:
    epochs = [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1), (0, 1), (2, 0)]  # the last came late
    events = [EpochEnded(time=T0, epoch=epoch, attempt=attempt, step=0, logs={}) for epoch, attempt in epochs]
    assert [(e.epoch, e.attempt) for e in last_epochs(events)] == [(0, 0), (1, 1), (2, 1), (0, 1)]
    assert len(last_epochs(events[:3] * 2)) == 6  # several calls of fit are not attempts


def test_a_stream_from_before_there_were_attempts_reads_the_same() -> None:
    old = [(seq, _without_attempt(data)) for seq, data in encoded(short_run())]
    assert RunRecord.replay(run_info(), old).info == RunRecord.replay(run_info(), encoded(short_run())).info


def _without_attempt(data: bytes) -> bytes:
    plain = msgspec.msgpack.decode(data)
    plain.pop("attempt", None)
    return msgspec.msgpack.encode(plain)
