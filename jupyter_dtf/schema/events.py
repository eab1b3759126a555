"""The events of a run, which form one stream. Each kind of event is a struct with a ``type`` tag.

An event is encoded once, in the task or the controller, and then passed on as the same bytes. The controller assigns it
the run's next sequence number (``seq``). The sequence numbers of a run have no gaps, and a viewer resumes from the last
one it has received.

A newer version may have events, fields and states that this version does not know. Unknown fields are ignored, and an
event that cannot be read becomes an ``UnknownEvent``. In both cases, the event keeps its number and its bytes.
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
"""The memory used by a bin of a histogram, and by a cell of a table, in bytes."""


SLOW, FAST_AGAIN = "slow", "as fast again"
"""The marks of the note that the other tasks wait for a task in every step, and of the note that they no longer do."""
PRUNED = "pruned"
"""The mark of the note about a trial that was ended because it was unpromising."""


class Event(PeerStruct, tag_field="type"):
    """Base of all events. ``time`` is in seconds since the epoch, by the clock of the machine on which it occurred."""

    time: float


class RunChanged(Event, tag="run"):
    """The run changed its state."""

    state: RunState
    message: str = ""


class TaskEvent(Event, kw_only=True):
    """Base of events from the process of a task, and of events about it from its host."""

    attempt: int = 0
    """The number of earlier starts of the task: 0 at first, 1 after a restart."""


class TaskChanged(TaskEvent, tag="task"):
    """A task changed its state. An event of a later attempt resets the task; one of an earlier attempt is outdated."""

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
    """As in ``TaskInfo``; empty if not stated."""


class Point(msgspec.Struct, array_like=True):
    """One call to ``report``: ``values`` at ``step``, reported at the wall time ``time`` (seconds since the epoch)."""

    step: float
    time: float
    values: dict[str, float]


class Points(TaskEvent, tag="points"):
    """``count`` consecutive points of one task. ``first`` is the sequence number of the first one within the attempt.

    ``data`` is the concatenated msgpack encoding of the Points. ``report`` encodes them, and only readers decode them,
    with ``decode_points``.
    """

    task: str
    first: int
    count: int
    data: bytes


class Logged(TaskEvent, tag="log"):
    """Lines of output of a task. ``first`` is the number of the first line, within the task and stream.

    A later attempt continues the numbering of the previous one. The stream of events carries no more output than a user
    can read, and retains only the most recent part: if ``first`` skips lines, these are only in the run's files. An
    event without lines stands for lines that are no longer retained.
    """

    task: str
    stream: str  # stdout, stderr
    first: int
    lines: list[str]
    kept: bool = True
    """Whether the host writes the output to the run's files. A host without access to these files cannot write them."""


class Note(TaskEvent, tag="note"):
    """Information for the user: a warning, a passed check, the description of a failure.

    A note about the values of a metric, such as the first non-finite one, has ``metric`` and ``step`` and is marked on
    that metric's plot. Other notes with a ``mark`` are marked on every plot.
    """

    level: str
    title: str
    text: str = ""
    task: str = ""
    metric: str = ""
    step: float | None = None
    mark: str = ""
    """The text of the mark: ``SLOW``, ``PRUNED``, or one or two other words."""
    alarm: str = ""
    """The condition, such as ``nan``, if the user requested to be notified of it (``schema/notify.py``)."""


CONTINUES = "Training continues after step"
"""The beginning of the title of the note with which a chief reports the step after which its training continues."""


class Progressed(TaskEvent, tag="progress"):
    """The progress of the run, as reported by the chief."""

    progress: Progress


class EpochEnded(TaskEvent, tag="epoch"):
    """The logs of an epoch, averaged over the tasks, as recorded by Keras's ``History``. ``epoch`` is counted from 0.

    The first such event of a later attempt replaces that epoch and all later ones (``last_epochs``).
    """

    epoch: int
    step: int
    logs: dict[str, float]


class CheckpointSaved(TaskEvent, tag="checkpoint"):
    """A checkpoint was completed, and the checkpoints of the steps in ``removed`` were deleted."""

    checkpoint: CheckpointInfo
    task: str = ""
    removed: list[int] = []


class Submitted(Event, tag="submitted"):
    """The code and the design that the run was submitted with. If a run has this event, it is the first one."""

    code: list[Source]
    """The sources that could be found."""
    design: Source | None = None
    """The design that the run was started from, if any, as the text of a ``.dtf`` file (``schema/design.py``)."""


class TracedSteps(TaskEvent, tag="traced"):
    """The progress of a task in recording a requested profile."""

    task: str
    profile: int
    """The number of the profile in the run."""
    stage: str
    """``waits`` (for the next step to begin), ``begun`` (steps are being traced), ``left`` (the trace has been written)
    or ``failed``."""
    has_steps: bool = False
    """Whether the task has already reported the beginning of a step."""
    first: int = 0
    last: int = 0
    """The first and the last step of the trace, once it has been written."""
    message: str = ""
    """The reason for a failure."""


class Profiled(TaskEvent, tag="profile"):
    """A profile of a run was requested, or has ended."""

    number: int
    steps: int
    done: bool = False
    message: str = ""
    """The reason why there is no trace, if the profile has ended without one."""


class TrialValued(TaskEvent, tag="trial"):
    """The values that the program of a trial returned, keyed by objective; NaN for values that are not numbers."""

    values: dict[str, float]


class SearchAsked(TaskEvent, tag="search_asked"):
    """A request to the program that drives a trial's search: to stop it, or to run ``more`` additional trials."""

    stop: bool = False
    more: int = 0


Cell = Union[str, float, bool, None]
"""The value of a cell of a table."""


class Histogram(TaskEvent, tag="histogram"):
    """A histogram of values at a step: ``counts`` in bins of equal width from ``low`` to ``high``.

    Non-finite values are not in any bin. If there are no finite values, there are no bins, and both limits are 0.
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
    """An image reported at a step, as a PNG of at most ``media.MOST_PICTURE_BYTES``.

    ``width`` and ``height`` are in pixels. An image with an empty ``png`` takes the place of a dropped event and is
    ignored.
    """

    task: str
    name: str
    step: float
    png: bytes
    width: int
    height: int
    caption: str = ""


class ReportedText(TaskEvent, tag="text"):
    """A string reported at a step, of at most ``media.MOST_TEXT_BYTES`` as UTF-8."""

    task: str
    name: str
    step: float
    text: str


class ReportedTable(TaskEvent, tag="table"):
    """A table reported at a step. Every row has a cell for each of ``columns``; numbers are finite."""

    task: str
    name: str
    step: float
    columns: list[str]
    rows: list[list[Cell]]


MEDIA_EVENTS = (Histogram, Picture, ReportedText, ReportedTable)
MediaEvent = Union[Histogram, Picture, ReportedText, ReportedTable]
"""Events that are stored separately from the other events of a run (``records/kept_media.py``)."""

StoryEvent = Union[RunChanged, TaskChanged, Note, CheckpointSaved]
"""Events shown to the user under *Events*. A type that is added here must be drawn in ``src/views/events.tsx``."""
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
    """The fields that every event of every version has."""

    type: str


class UnknownEvent(PeerStruct):
    """An event that this version cannot read: its type or one of its values is unknown.

    It occupies a sequence number and is otherwise ignored. ``why`` states what cannot be read.
    """

    type: str
    why: str = ""


POINTS, LOG = b"\xa4type\xa6points", b"\xa4type\xa3log"
"""The first bytes of encoded ``Points`` and ``Logged`` events, after the initial byte of the msgpack map: these events
are passed on without being decoded."""
MEDIA = (b"\xa4type\xa9histogram", b"\xa4type\xa5image", b"\xa4type\xa4text", b"\xa4type\xa5table")
"""The first bytes of each kind of encoded ``MediaEvent``, also after the initial byte of the map."""


def media_bytes(event: MediaEvent) -> int:
    """Return the approximate number of bytes of memory that the contents of an event occupy."""
    if isinstance(event, Picture):
        return len(event.png)
    if isinstance(event, ReportedText):
        return len(event.text.encode())
    if isinstance(event, ReportedTable):
        cells = itertools.chain(event.columns, *event.rows)
        return sum(_CELL_BYTES + (len(cell.encode()) if isinstance(cell, str) else 0) for cell in cells)
    return _BIN_BYTES * len(event.counts)


def last_epochs(events: Iterable[object]) -> list[EpochEnded]:
    """Return the epochs among a run's events, except those that a later attempt has repeated or will repeat."""
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
    """Return the checkpoints among a run's events, ordered by step, except those that were deleted."""
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
    """Encode an event as msgpack bytes."""
    return _encoder.encode(event)


def decode_event(data: bytes) -> AnyEvent | UnknownEvent:
    """Decode an event that was encoded by ``encode_event`` of this or another version.

    Raises msgspec.MsgspecError for data without a type, which every event of every version has.
    """
    try:
        event: AnyEvent = _decoder.decode(data)
        return event
    except msgspec.ValidationError as error:
        return UnknownEvent(type=_typed.decode(data).type, why=str(error))


def encode_points(points: list[Point]) -> bytes:
    """Encode points as the ``data`` of a ``Points`` event."""
    return b"".join(map(_encoder.encode, points))


def decode_points(points: Points) -> list[Point]:
    """Decode the points of a ``Points`` event, oldest first."""
    header = b"\xdd" + points.count.to_bytes(4, "big")  # msgpack: array of count elements
    return _point_list.decode(header + points.data)
