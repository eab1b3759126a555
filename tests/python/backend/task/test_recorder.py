"""Tests of what ``report`` writes: nothing is lost, even if the host is slow or the task dies."""

from __future__ import annotations

import math
import os
import signal
import threading

import msgspec
import pytest

from jupyter_dtf.backend.task.recorder import Recorder
from jupyter_dtf.schema.events import Note, Point, decode_event
from jupyter_dtf.schema.frames import EVENT, HEADER, POINT


def frames(data: bytes) -> list[tuple[int, bytes]]:
    found = []
    while data:
        length, kind = HEADER.unpack_from(data)
        found.append((kind, data[HEADER.size : HEADER.size + length]))
        data = data[HEADER.size + length :]
    return found


def read_all(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 1 << 20):
        parts.append(part)
    os.close(fd)
    return b"".join(parts)


def test_points_and_events_arrive_in_order() -> None:
    read, write = os.pipe()
    recorder = Recorder(write)
    recorder.report(3, {"loss": 1})
    recorder.report(None, {"loss": 0.5, "accuracy": True})
    recorder.emit(Note(time=1.0, level="info", title="hello"))
    recorder.close()
    first, second, third = frames(read_all(read))
    assert (first[0], second[0], third[0]) == (POINT, POINT, EVENT)
    one, two = (msgspec.msgpack.decode(body, type=Point) for _, body in (first, second))
    assert (one.step, one.values) == (3.0, {"loss": 1.0})
    assert (two.step, two.values) == (4.0, {"loss": 0.5, "accuracy": 1.0})
    note = decode_event(third[1])
    assert isinstance(note, Note)
    assert note.title == "hello"


def test_what_is_measured_of_a_task_leaves_the_programs_steps_alone() -> None:
    read, write = os.pipe()
    recorder = Recorder(write)
    recorder.report(3, {"loss": 1})
    recorder.measure({"network_seconds": 0.5})
    recorder.report(None, {"loss": 0.5})
    recorder.close()
    points = [msgspec.msgpack.decode(body, type=Point) for _, body in frames(read_all(read))]
    assert [point.values for point in points] == [{"loss": 1.0}, {"network_seconds": 0.5}, {"loss": 0.5}]
    assert (points[0].step, points[2].step) == (3.0, 4.0)
    assert points[1].step >= 0


def test_what_a_task_says_carries_its_attempt() -> None:
    read, write = os.pipe()
    recorder = Recorder(write, "worker:1", attempt=2)
    recorder.emit(Note(time=1.0, level="info", title="hello"))
    recorder.report(0, {"loss": math.nan})
    recorder.close()
    told = [decode_event(body) for kind, body in frames(read_all(read)) if kind == EVENT]
    assert [note.attempt for note in told if isinstance(note, Note)] == [2, 2]


def test_the_first_value_that_is_not_finite_is_told_once_of_each_metric() -> None:
    read, write = os.pipe()
    recorder = Recorder(write, "worker:1")
    large = 1.7e308  # finite, but the sum of two is not
    rows = [{"a": large, "b": large}, {"loss": math.nan, "b": math.inf}, {"loss": math.nan}, {"epoch_loss": math.nan}]
    for step, values in enumerate([*rows, {"val_loss": -math.inf}], 7):
        recorder.report(step, values)
    recorder.close()
    told = [decode_event(body) for kind, body in frames(read_all(read)) if kind == EVENT]
    assert all(isinstance(note, Note) for note in told)
    assert [(note.level, note.title, note.task, note.metric, note.step) for note in told if isinstance(note, Note)] == [
        ("warning", "loss became NaN at step 8 on worker:1", "worker:1", "loss", 8.0),
        ("warning", "b became infinite at step 8 on worker:1", "worker:1", "b", 8.0),
        ("warning", "val_loss became -infinite at step 11 on worker:1", "worker:1", "val_loss", 11.0),
    ]


def test_a_slow_host_does_not_hold_up_the_program_and_loses_nothing() -> None:
    read, write = os.pipe()
    recorder = Recorder(write)
    count = 20_000  # far more than a pipe holds
    for step in range(count):
        recorder.report(step, {"loss": step})
    collected: list[bytes] = []
    reader = threading.Thread(target=lambda: collected.append(read_all(read)))
    reader.start()
    recorder.close()
    reader.join()
    steps = [msgspec.msgpack.decode(body, type=Point).step for _, body in frames(collected[0])]
    assert steps == list(range(count))


def test_what_was_reported_before_a_sigkill_is_kept() -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        recorder = Recorder(write)
        for step in range(500):
            recorder.report(step, {"loss": step})
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(write)
    assert len(frames(read_all(read))) == 500
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


def test_a_host_that_is_gone_is_not_the_programs_fault() -> None:
    read, write = os.pipe()
    os.close(read)
    recorder = Recorder(write)
    recorder.report(0, {"loss": 1.0})
    recorder.close()
    recorder.report(1, {"loss": 1.0})


def test_a_value_that_is_no_number_is_refused() -> None:
    read, write = os.pipe()
    recorder = Recorder(write)
    with pytest.raises(ValueError, match="`loss` must be a number, got .high."):
        recorder.report(0, {"loss": "high"})
    recorder.close()
    assert read_all(read) == b""
