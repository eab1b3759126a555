"""The messages between the browser and the server over the socket."""

from __future__ import annotations

from typing import Any, Union

from .api import ClusterInfo
from .base import PeerStruct, Struct, decode_json
from .run import RunInfo

# -- browser to server ---------------------------------------------------------------------------------------------


class Subscribe(Struct, tag_field="type", tag="subscribe"):
    """Requests a run's events after the sequence number ``after`` (-1: all), and its series.

    The series are decimated for plots that are ``width`` pixels wide. ``metrics`` are the metrics whose series to send;
    null: all.
    """

    run: str
    after: int = -1
    width: int = 600
    x: str = "step"  # step, time
    metrics: list[str] | None = None


class Show(Struct, tag_field="type", tag="show"):
    """Restricts a subscribed run's series to these metrics from now on. Each series continues where it stopped."""

    run: str
    metrics: list[str]


class Unsubscribe(Struct, tag_field="type", tag="unsubscribe"):
    run: str


ClientMessage = Union[Subscribe, Show, Unsubscribe]


# -- server to browser ---------------------------------------------------------------------------------------------


class HelloMessage(PeerStruct, tag_field="type", tag="hello"):
    """The first message: the protocols that the server supports (``schema.protocol``), and its version.

    A page states its protocols when it opens the socket (``?protocol=1&oldest=1``). If the page and the server have
    none in common, the server sends nothing else and closes the socket.
    """

    protocol: int
    oldest: int
    version: str


class ClustersMessage(PeerStruct, tag_field="type", tag="clusters"):
    """All clusters. Sent on connection and after every change."""

    clusters: list[ClusterInfo]


class RunsMessage(PeerStruct, tag_field="type", tag="runs"):
    """Runs that are new or have changed. The first message after connection (``all``) contains all runs."""

    runs: list[RunInfo]
    all: bool = False
    removed: list[str] = []


class EventsMessage(PeerStruct, tag_field="type", tag="events"):
    """Events of a subscribed run, except points. To resume, subscribe after ``next_seq`` - 1.

    Each event is a struct of ``schema.events`` as JSON, with ``seq`` added.
    """

    run: str
    events: list[dict[str, Any]]
    next_seq: int


class SeriesFrame(PeerStruct):
    """One decimated line of one plot. Its points replace all but the first ``start`` points that were sent before.

    null stands for a non-finite value, which is drawn as a gap.
    """

    metric: str
    task: str
    """The task, such as ``worker:1``; empty for the mean over the tasks at each step, which exists if several tasks
    report."""
    start: int
    x: list[float | None]
    y: list[float | None]
    replaced: str = ""
    """Empty if these points belong to the training that led to the model. If a later attempt replaced them, this is the
    name of their task, and ``task`` also includes the attempt (``worker:1, attempt 1``), so that a reader that does not
    know this field draws a separate line.
    """


class SeriesMessage(PeerStruct, tag_field="type", tag="series"):
    """The changes to the decimated series of a subscribed run."""

    run: str
    frames: list[SeriesFrame]


class SocketError(PeerStruct, tag_field="type", tag="error"):
    """The error for a message that could not be handled."""

    message: str
    run: str = ""


ServerMessage = Union[HelloMessage, ClustersMessage, RunsMessage, EventsMessage, SeriesMessage, SocketError]


def decode_client_message(data: bytes | str) -> ClientMessage:
    """Decode a message from a browser. Raises InvalidInput."""
    message: ClientMessage = decode_json(data, ClientMessage)  # type: ignore[arg-type]  # a union
    return message
