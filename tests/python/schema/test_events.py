from __future__ import annotations

import math

import msgspec
import pytest

from jupyter_dtf.schema.checkpoint import CheckpointInfo
from jupyter_dtf.schema.events import (
    AnyEvent,
    CheckpointSaved,
    EpochEnded,
    Logged,
    Note,
    Point,
    Points,
    Progressed,
    RunChanged,
    TaskChanged,
    UnknownEvent,
    decode_event,
    decode_points,
    encode_event,
    encode_points,
)
from jupyter_dtf.schema.run import Progress, RunState, TaskState

EVENTS: list[AnyEvent] = [
    RunChanged(time=1.0, state=RunState.FAILED, message="why"),
    TaskChanged(time=1.0, task="worker:1", state=TaskState.FAILED, exit_code=-9, signal="SIGKILL", traceback="…"),
    Points(time=1.0, task="worker:0", first=7, count=2, data=b"xy"),
    Logged(time=1.0, task="worker:0", stream="stderr", first=3, lines=["a", ""]),
    Note(time=1.0, level="warning", title="Careful"),
    Progressed(time=1.0, progress=Progress(done=3, total=10, epoch=1, epochs=2)),
    EpochEnded(time=1.0, epoch=0, step=9, logs={"loss": math.inf}),
    CheckpointSaved(time=1.0, checkpoint=CheckpointInfo(step=9, epoch=1, metric=0.5, path="/a"), removed=[3]),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_event_survives_its_bytes(event: AnyEvent) -> None:
    back = decode_event(encode_event(event))
    assert back == event
    assert type(back) is type(event)


def test_tags_are_what_browsers_and_the_store_know() -> None:
    tags = [type(event).__struct_config__.tag for event in EVENTS]
    assert tags == ["run", "task", "points", "log", "note", "progress", "epoch", "checkpoint"]


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x80", msgspec.msgpack.encode({"type": 1, "time": 1.0})])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_event(data)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_newer_versions_key_is_ignored(event: AnyEvent) -> None:
    plain = msgspec.msgpack.decode(encode_event(event))
    assert decode_event(msgspec.msgpack.encode({**plain, "extra": {"a": [1]}})) == event


@pytest.mark.parametrize(
    ("change", "type_"),
    [
        ({"type": "host", "cpu": 0.5}, "host"),
        ({"state": "resting"}, "run"),
        ({"state": ["running", "resting"]}, "run"),
        ({"time": "2026-01-01"}, "run"),
    ],
)
def test_what_only_a_newer_version_can_read_is_an_event_of_its_type(change: dict[str, object], type_: str) -> None:
    plain = {**msgspec.msgpack.decode(encode_event(EVENTS[0])), **change}
    event = decode_event(msgspec.msgpack.encode(plain))
    assert isinstance(event, UnknownEvent)
    assert event.type == type_
    assert event.why


@pytest.mark.parametrize("count", [0, 1, 3, 70_000])
def test_points_travel_as_one_piece(count: int) -> None:
    points = [Point(step=float(i), time=i / 7, values={"loss": 1 / (i + 1), "n": float(i)}) for i in range(count)]
    event = Points(time=0.0, task="worker:0", first=0, count=count, data=encode_points(points))
    back = decode_event(encode_event(event))
    assert isinstance(back, Points)
    assert decode_points(back) == points


def test_points_that_are_fewer_than_said_are_refused() -> None:
    data = encode_points([Point(step=1.0, time=1.0, values={})])
    with pytest.raises(msgspec.MsgspecError):
        decode_points(Points(time=0.0, task="worker:0", first=0, count=2, data=data))
