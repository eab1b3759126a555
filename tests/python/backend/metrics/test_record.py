from __future__ import annotations

import math

import numpy as np
import pytest

from jupyter_dtf.backend.metrics.record import RunRecord
from jupyter_dtf.errors import Conflict
from jupyter_dtf.schema.events import Note, Points, TaskChanged
from jupyter_dtf.schema.run import RunState, TaskState

from .run_events import T0, encoded, points, run_info, short_run


def record_of(*events: Points) -> RunRecord:
    record = RunRecord(run_info())
    for seq, event in enumerate(events):
        record.apply(seq, event)
    return record


def test_events_make_the_record_whatever_the_description_said_before() -> None:
    info = run_info(state=RunState.RUNNING, next_seq=77, latest={"x": 1.0}, message="old")
    record = RunRecord.replay(info, encoded(short_run()))
    assert info.next_seq == 77  # the caller's own
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
    with pytest.raises(Conflict, match=rf"without gaps: the next of r1 is 1\. Received: {seq}"):
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
