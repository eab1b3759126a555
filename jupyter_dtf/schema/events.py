"""What happens in a run, as one stream of events. Each kind is a struct with a ``type`` tag.

An event is encoded once, in the task or the controller, and travels on as the same bytes. The controller gives it the
run's next sequence number (``seq``): sequence numbers of a run have no gaps, and a viewer resumes from the last it saw.

A newer version has events, fields and states that this one does not know: what cannot be read of an event is skipped,
and the event keeps its number and its bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Union, get_args

import msgspec

from .base import PeerStruct
from .checkpoint import CheckpointInfo
from .origin import Source
from .run import Progress, RunState, TaskState

LEVELS = ("info", "warning", "error")

_BIN_BYTES, _CELL_BYTES = 36, 30
"""What a bin of a histogram and a cell of a table take in memory."""


SLOW, FAST_AGAIN = "slow", "as fast again"
"""The marks of notes on a task for which the others wait in every step, and on the end of that."""
PRUNED = "pruned"
"""The mark of the note on a trial that is ended because it does not promise enough."""


class Event(PeerStruct, tag_field="type"):
    """Base of all events. ``time`` is in seconds since the epoch, by the clock of the machine where it happened."""

    time: float


class RunChanged(Event, tag="run"):
    """The run took a step in its life cycle."""

    state: RunState
    message: str = ""


class TaskEvent(Event, kw_only=True):
    """Base of what a task's process says, and its host of it."""

    attempt: int = 0
    """How often the task had been started before: 0, and 1 once it was started again."""


class TaskChanged(TaskEvent, tag="task"):
    """A task took a step in its life. One of a later attempt begins it anew; one of an earlier attempt is late."""

    task: str
    state: TaskState
    host: str = ""
    pid: int = 0
    endpoint: str = ""
    exit_code: int | None = None
    signal: str = ""
    message: str = ""
    traceback: str = ""
    gpus: list[str] = []
    """As in ``TaskInfo``; empty where nothing is said of them."""


class Point(msgspec.Struct, array_like=True):
    """What one call of ``report`` said: ``values`` at ``step``, at wall time ``time`` (seconds since the epoch)."""

    step: float
    time: float
    values: dict[str, float]


class Points(TaskEvent, tag="points"):
    """Consecutive points of one task. ``first`` is the sequence number, within the attempt, of the first of ``count``.

    ``data`` is the msgpack of each Point, one after the other: they are encoded by ``report`` and decoded by who reads
    them, never in between. ``decode_points`` does that.
    """

    task: str
    first: int
    count: int
    data: bytes


class Logged(TaskEvent, tag="log"):
    """Lines of output of a task. ``first`` is the number, within the task and stream, of the first line; a later
    attempt numbers its lines after those before.

    The stream of events carries no more than a person can read, and keeps the last of it: where ``first`` is beyond
    the line after the last, the lines between are in the run's files only. An event without lines is one whose lines
    are no longer kept.
    """

    task: str
    stream: str  # stdout, stderr
    first: int
    lines: list[str]
    kept: bool = True
    """Whether the host writes it into the run's files; it cannot where it does not see them."""


class Note(TaskEvent, tag="note"):
    """Something a person should know: a warning, a check that passed, a failure in words.

    One about the values of a metric, as that they are not finite from here on, has ``metric`` and ``step``: it is
    marked on that metric's plot. What else is marked, on every plot, has ``mark``.
    """

    level: str
    title: str
    text: str = ""
    task: str = ""
    metric: str = ""
    step: float | None = None
    mark: str = ""
    """What it is marked with: ``SLOW``, ``PRUNED``, or another word or two."""
    alarm: str = ""
    """What it is about, where somebody wanted to be told of that (``schema/notify.py``): ``nan``, ``idle``, ``end``."""


GOES_ON = "Training goes on after step"
"""How a note's title begins by which a chief says where its training goes on; the step follows."""


class Progressed(TaskEvent, tag="progress"):
    """How far the run is, by the chief's count."""

    progress: Progress


class EpochEnded(TaskEvent, tag="epoch"):
    """An epoch's logs, averaged over the tasks: what Keras's ``History`` records. ``epoch`` counts from 0.

    The first of a later attempt takes the place of that epoch and all after it (``last_epochs``).
    """

    epoch: int
    step: int
    logs: dict[str, float]


class CheckpointSaved(TaskEvent, tag="checkpoint"):
    """A checkpoint is complete, and those of the steps ``removed`` are gone for it."""

    checkpoint: CheckpointInfo
    task: str = ""
    removed: list[int] = []


class Submitted(Event, tag="submitted"):
    """What the run was submitted with: its first event, if it has one."""

    code: list[Source]
    """As far as its source was to be had."""
    design: Source | None = None
    """The design that it came from, as the text of a ``.dtf`` file (``schema/design.py``), where it came from one."""


class TracedSteps(TaskEvent, tag="traced"):
    """How far a task is with a profile that it was asked for."""

    task: str
    profile: int
    """Which of the run's."""
    stage: str
    """``waits`` for a step, has ``begun`` with it, has ``left`` its trace, or has ``failed``."""
    has_steps: bool = False
    """Whether it has said before where a step begins."""
    first: int = 0
    last: int = 0
    """The steps of the trace that it has left."""
    message: str = ""
    """Why it has failed."""


class Profiled(TaskEvent, tag="profile"):
    """Somebody has asked for a profile of a run, or it is over."""

    number: int
    steps: int
    done: bool = False
    message: str = ""
    """Why there is no trace, of one that is over."""


class TrialValued(TaskEvent, tag="trial"):
    """What the program of a trial has returned, by objective; NaN for what is no number."""

    values: dict[str, float]


class SearchAsked(TaskEvent, tag="search_asked"):
    """Somebody asks the program that drives a trial's search to stop it, or to have so many more trials."""

    stop: bool = False
    more: int = 0


Cell = Union[str, float, bool, None]
"""Of a table."""


class Histogram(TaskEvent, tag="histogram"):
    """How many of some values lay where, at a step: ``counts`` in as many bins of one width from ``low`` to ``high``.

    Those that are not finite are in no bin. Without a finite one there are no bins, and both limits are 0.
    """

    task: str
    name: str
    step: float
    low: float
    high: float
    counts: list[int]
    not_a_number: int = 0
    infinite: int = 0


class Picture(TaskEvent, tag="image"):
    """A picture of a step, as PNG of at most ``media.MOST_PICTURE_BYTES``. ``width`` and ``height`` are in pixels.

    One without a ``png`` stands for an event that was not kept on the way: it changes nothing.
    """

    task: str
    name: str
    step: float
    png: bytes
    width: int
    height: int
    caption: str = ""


class ReportedText(TaskEvent, tag="text"):
    """A text of a step, of at most ``media.MOST_TEXT_BYTES`` as UTF-8."""

    task: str
    name: str
    step: float
    text: str


class ReportedTable(TaskEvent, tag="table"):
    """A table of a step. Every row has a cell for each of ``columns``; numbers are finite."""

    task: str
    name: str
    step: float
    columns: list[str]
    rows: list[list[Cell]]


MEDIA_EVENTS = (Histogram, Picture, ReportedText, ReportedTable)
MediaEvent = Union[Histogram, Picture, ReportedText, ReportedTable]
"""What has a place of its own among what is known of a run, and is asked for there (``records/kept_media.py``)."""

StoryEvent = Union[RunChanged, TaskChanged, Note, CheckpointSaved]
"""What a person reads, under *Events*: a type that is added here is drawn in ``src/views/events.tsx``."""
STORY = tuple(str(kind.__struct_config__.tag) for kind in get_args(StoryEvent))

AnyEvent = Union[
    StoryEvent,
    MediaEvent,
    Points,
    Logged,
    Progressed,
    EpochEnded,
    Submitted,
    TrialValued,
    SearchAsked,
    TracedSteps,
    Profiled,
]


class _Typed(PeerStruct):
    """What every event of every version is."""

    type: str


class UnknownEvent(PeerStruct):
    """An event that this version cannot read: of a type that it does not know, or with a value that is new to it.

    It takes its number in the run and changes nothing. ``why`` says what cannot be read.
    """

    type: str
    why: str = ""


POINTS, LOG = b"\xa4type\xa6points", b"\xa4type\xa3log"
"""How the encoded ``Points`` and ``Logged`` begin, after the byte of the map: they are passed on without being read."""
MEDIA = (b"\xa4type\xa9histogram", b"\xa4type\xa5image", b"\xa4type\xa4text", b"\xa4type\xa5table")
"""The same of every ``MediaEvent``."""


def media_bytes(event: MediaEvent) -> int:
    """About how many bytes of memory the contents of an event take."""
    if isinstance(event, Picture):
        return len(event.png)
    if isinstance(event, ReportedText):
        return len(event.text.encode())
    if isinstance(event, ReportedTable):
        cells = itertools.chain(event.columns, *event.rows)
        return sum(_CELL_BYTES + (len(cell.encode()) if isinstance(cell, str) else 0) for cell in cells)
    return _BIN_BYTES * len(event.counts)


def last_epochs(events: Iterable[object]) -> list[EpochEnded]:
    """The epochs among a run's events without those that a later attempt has repeated, or will."""
    found: list[EpochEnded] = []
    attempt = 0
    for event in events:
        if isinstance(event, EpochEnded) and event.attempt >= attempt:
            if event.attempt > attempt:
                found = [known for known in found if known.epoch < event.epoch]
                attempt = event.attempt
            found.append(event)
    return found


def checkpoints_of(events: Iterable[object]) -> list[CheckpointInfo]:
    """The checkpoints that a run's events tell of, without those removed since, by step."""
    found: dict[int, CheckpointInfo] = {}
    for event in events:
        if isinstance(event, CheckpointSaved):
            found[event.checkpoint.step] = event.checkpoint
            for step in event.removed:
                found.pop(step, None)
    return [found[step] for step in sorted(found)]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(AnyEvent)
_typed = msgspec.msgpack.Decoder(_Typed)
_point_list = msgspec.msgpack.Decoder(list[Point])


def encode_event(event: AnyEvent) -> bytes:
    """The event as msgpack bytes."""
    return _encoder.encode(event)


def decode_event(data: bytes) -> AnyEvent | UnknownEvent:
    """The event that ``encode_event`` made bytes of, here or in another version.

    Raises msgspec.MsgspecError for what is no event of any version: one has a type.
    """
    try:
        event: AnyEvent = _decoder.decode(data)
        return event
    except msgspec.ValidationError as error:
        return UnknownEvent(type=_typed.decode(data).type, why=str(error))


def encode_points(points: list[Point]) -> bytes:
    """The ``data`` of a ``Points`` event."""
    return b"".join(map(_encoder.encode, points))


def decode_points(points: Points) -> list[Point]:
    """The points of a ``Points`` event, oldest first."""
    header = b"\xdd" + points.count.to_bytes(4, "big")  # msgpack: array of count elements
    return _point_list.decode(header + points.data)
