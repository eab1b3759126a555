"""What the browser and the server say to each other over the socket."""

from __future__ import annotations

from typing import Any, Union

from .api import ClusterInfo
from .base import PeerStruct, Struct, decode_json
from .run import RunInfo

# -- browser to server ---------------------------------------------------------------------------------------------


class Subscribe(Struct, tag_field="type", tag="subscribe"):
    """Send this run's events after sequence number ``after`` (-1: all), and its series ``width`` pixels wide.

    ``metrics`` are those whose series are wanted; null for all.
    """

    run: str
    after: int = -1
    width: int = 600
    x: str = "step"  # step, time
    metrics: list[str] | None = None


class Show(Struct, tag_field="type", tag="show"):
    """From now on send the series of these metrics of a subscribed run, each from where it was left."""

    run: str
    metrics: list[str]


class Unsubscribe(Struct, tag_field="type", tag="unsubscribe"):
    run: str


ClientMessage = Union[Subscribe, Show, Unsubscribe]


# -- server to browser ---------------------------------------------------------------------------------------------


class HelloMessage(PeerStruct, tag_field="type", tag="hello"):
    """The first message: which protocols the server speaks (``schema.protocol``), and its version.

    A page says which it speaks when it opens the socket (``?protocol=1&oldest=1``). Where there is none that both
    speak, the server says no more and closes the socket.
    """

    protocol: int
    oldest: int
    version: str


class ClustersMessage(PeerStruct, tag_field="type", tag="clusters"):
    """All clusters; sent on connecting and after every change."""

    clusters: list[ClusterInfo]


class RunsMessage(PeerStruct, tag_field="type", tag="runs"):
    """Runs that are new or have changed. The first message after connecting (``all``) holds every run known."""

    runs: list[RunInfo]
    all: bool = False
    removed: list[str] = []


class EventsMessage(PeerStruct, tag_field="type", tag="events"):
    """Events of a subscribed run but its points; ``next_seq`` is what to resume after, minus one.

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
    """``worker:1``; empty for the mean over the tasks by step, which is there when more than one task reports."""
    start: int
    x: list[float | None]
    y: list[float | None]
    replaced: str = ""
    """The task, where these are points of an attempt whose steps a later one has done again; empty: they led to the
    model. ``task`` names the attempt then (``worker:1, attempt 1``): for who does not know this, it is another line.
    """


class SeriesMessage(PeerStruct, tag_field="type", tag="series"):
    """What changed in the decimated series of a subscribed run."""

    run: str
    frames: list[SeriesFrame]


class SocketError(PeerStruct, tag_field="type", tag="error"):
    """A message that could not be followed."""

    message: str
    run: str = ""


ServerMessage = Union[HelloMessage, ClustersMessage, RunsMessage, EventsMessage, SeriesMessage, SocketError]


def decode_client_message(data: bytes | str) -> ClientMessage:
    """A browser's message. Raises InvalidInput."""
    message: ClientMessage = decode_json(data, ClientMessage)  # type: ignore[arg-type]  # a union
    return message
