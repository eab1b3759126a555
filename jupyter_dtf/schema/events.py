"""What happens in a run, as one stream of events. Each kind is a struct with a ``type`` tag.

An event is encoded once, in the task or the controller, and travels on as the same bytes. The controller gives it the
run's next sequence number (``seq``): sequence numbers of a run have no gaps, and a viewer resumes from the last it saw.
"""

from __future__ import annotations

from typing import Union

import msgspec

from .run import Progress, RunState, TaskState

LEVELS = ("info", "warning", "error")


class Event(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, tag_field="type"):
    """Base of all events. ``time`` is in seconds since the epoch, by the clock of the machine where it happened."""

    time: float


class RunChanged(Event, tag="run"):
    """The run took a step in its life cycle."""

    state: RunState
    message: str = ""


class TaskChanged(Event, tag="task"):
    """A task took a step in its life."""

    task: str
    state: TaskState
    host: str = ""
    pid: int = 0
    endpoint: str = ""
    exit_code: int | None = None
    signal: str = ""
    message: str = ""
    traceback: str = ""


class Point(msgspec.Struct, array_like=True):
    """What one call of ``report`` said: ``values`` at ``step``, at wall time ``time`` (seconds since the epoch)."""

    step: float
    time: float
    values: dict[str, float]


class Points(Event, tag="points"):
    """Consecutive points of one task. ``first`` is the sequence number, within the task, of the first of ``count``.

    ``data`` is the msgpack of each Point, one after the other: they are encoded by ``report`` and decoded by who reads
    them, never in between. ``decode_points`` does that.
    """

    task: str
    first: int
    count: int
    data: bytes


class Logged(Event, tag="log"):
    """Lines of output of a task. ``first`` is the number, within the task and stream, of the first line."""

    task: str
    stream: str  # stdout, stderr
    first: int
    lines: list[str]


class Note(Event, tag="note"):
    """Something a person should know: a warning, a check that passed, a failure in words."""

    level: str
    title: str
    text: str = ""
    task: str = ""


class Progressed(Event, tag="progress"):
    """How far the run is, by the chief's count."""

    progress: Progress


class EpochEnded(Event, tag="epoch"):
    """An epoch's logs, averaged over the tasks: what Keras's ``History`` records. ``epoch`` counts from 0."""

    epoch: int
    step: int
    logs: dict[str, float]


AnyEvent = Union[RunChanged, TaskChanged, Points, Logged, Note, Progressed, EpochEnded]

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(AnyEvent)
_point_list = msgspec.msgpack.Decoder(list[Point])


def encode_event(event: AnyEvent) -> bytes:
    """The event as msgpack bytes."""
    return _encoder.encode(event)


def decode_event(data: bytes) -> AnyEvent:
    """The event that ``encode_event`` made bytes of. Raises msgspec.ValidationError for anything else."""
    event: AnyEvent = _decoder.decode(data)
    return event


def encode_points(points: list[Point]) -> bytes:
    """The ``data`` of a ``Points`` event."""
    return b"".join(map(_encoder.encode, points))


def decode_points(points: Points) -> list[Point]:
    """The points of a ``Points`` event, oldest first."""
    header = b"\xdd" + points.count.to_bytes(4, "big")  # msgpack: array of count elements
    return _point_list.decode(header + points.data)
