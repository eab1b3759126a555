"""The messages between the browser and the server over the socket."""

from __future__ import annotations

from typing import Any, Union

from .api import ClusterInfo
from .base import PeerStruct, Struct, decode_json
from .run import RunInfo

# -- browser to server ---------------------------------------------------------------------------------------------


class Subscribe(Struct, tag_field="type", tag="subscribe"):
    """Send this run's events after sequence number ``after`` (-1: all), and its series ``width`` pixels wide.

    ``metrics``: those whose series to send; null: all.
    """

    run: str
    after: int = -1
    width: int = 600
    x: str = "step"  # step, time
    metrics: list[str] | None = None


class Show(Struct, tag_field="type", tag="show"):
    """From now on, send the series of these metrics of a subscribed run, each from where it stopped."""

    run: str
    metrics: list[str]


class Unsubscribe(Struct, tag_field="type", tag="unsubscribe"):
    run: str


ClientMessage = Union[Subscribe, Show, Unsubscribe]


# -- server to browser ---------------------------------------------------------------------------------------------


class HelloMessage(PeerStruct, tag_field="type", tag="hello"):
    """The first message: which protocols the server speaks (``schema.protocol``), and its version.

    A page states its protocols when it opens the socket (``?protocol=1&oldest=1``). If none is common to both, the
    server sends nothing else and closes the socket.
    """

    protocol: int
    oldest: int
    version: str


class ClustersMessage(PeerStruct, tag_field="type", tag="clusters"):
    """All clusters; sent on connecting and after every change."""

    clusters: list[ClusterInfo]


class RunsMessage(PeerStruct, tag_field="type", tag="runs"):
    """Runs that are new or have changed. The first message after connecting (``all``) contains all runs."""

    runs: list[RunInfo]
    all: bool = False
    removed: list[str] = []


class EventsMessage(PeerStruct, tag_field="type", tag="events"):
    """Events of a subscribed run except points; resume after ``next_seq`` - 1.

    Each event is the struct of ``schema.events`` as JSON, with ``seq`` added.
    """

    run: str
    events: list[dict[str, Any]]
    next_seq: int


class SeriesFrame(PeerStruct):
    """One line of one plot, decimated: keep the first ``start`` points that you have, then append these.

    null stands for a value that is not finite: a gap.
    """

    metric: str
    task: str
    """``worker:1``; empty for the mean over the tasks by step, which exists if more than one task reports."""
    start: int
    x: list[float | None]
    y: list[float | None]
    replaced: str = ""
    """The task, if these points of an attempt were replaced by a later one; empty if they led to the model. ``task``
    then includes the attempt (``worker:1, attempt 1``), so that readers unaware of this draw another line.
    """


class SeriesMessage(PeerStruct, tag_field="type", tag="series"):
    """What changed in the decimated series of a subscribed run."""

    run: str
    frames: list[SeriesFrame]


class SocketError(PeerStruct, tag_field="type", tag="error"):
    """A message that could not be handled."""

    message: str
    run: str = ""


ServerMessage = Union[HelloMessage, ClustersMessage, RunsMessage, EventsMessage, SeriesMessage, SocketError]


def decode_client_message(data: bytes | str) -> ClientMessage:
    """A browser's message. Raises InvalidInput."""
    message: ClientMessage = decode_json(data, ClientMessage)  # type: ignore[arg-type]  # a union
    return message
