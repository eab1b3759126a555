"""What the REST routes and the socket say: cluster requests and descriptions, forms, socket messages.

The browser's types (``src/api/schema.ts``) are generated from this module, ``run`` and ``events``.
"""

from __future__ import annotations

import enum
import re
from typing import Any, Union

import msgspec

from ..errors import InvalidInput
from .base import Struct, decode_json
from .cluster import check_jobs
from .hosts import HostDesign, TaskPlace, check_places
from .run import RunInfo

_NAME = re.compile(r"^[a-z0-9]([a-z0-9_\-]{0,62}[a-z0-9])?\Z")


def check_name(name: str, field: str = "name") -> str:
    """A cluster's or template's name: 1 to 64 of ``a-z 0-9 - _``, beginning and ending with a letter or digit."""
    if not _NAME.match(name):
        raise InvalidInput(
            "A name has 1 to 64 lower-case letters, digits, hyphens or underscores, and begins and ends with a letter "
            f"or digit. Received: {name!r}",
            field=field,
        )
    return name


class ClusterState(str, enum.Enum):
    """The life of a cluster as a viewer sees it."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"  # did not start; the message says why
    LOST = "lost"  # does not answer


class ClusterRequest(Struct):
    """A cluster to start. ``options`` are those of its kind (``KindInfo.fields``)."""

    name: str = ""
    """Empty: a free name is chosen."""
    kind: str = "local"
    jobs: dict[str, int] = msgspec.field(default_factory=lambda: {"worker": 2})
    options: dict[str, Any] = {}
    hosts: list[HostDesign] = []
    """The hosts that were drawn, which have to be there; empty: whatever hosts the kind makes."""
    tasks: list[TaskPlace] = []
    """Tasks with a place of their own; the others go where there is room."""
    keep: bool = False
    """Stay until stopped, with or without clients."""
    grace_s: float = 300.0
    """Without ``keep``: end this long after the last client has gone, never during a run."""

    def __post_init__(self) -> None:
        if self.name:
            check_name(self.name)
        check_jobs(self.jobs)
        check_places(self.jobs, self.hosts, self.tasks)
        if not 0 <= self.grace_s < float("inf"):
            raise InvalidInput(f"grace_s is a number of seconds from 0. Received: {self.grace_s}", field="grace_s")


class ClusterPatch(Struct):
    """A change to a running cluster: new counts of tasks per job."""

    jobs: dict[str, int]

    def __post_init__(self) -> None:
        check_jobs(self.jobs)


class GpuInfo(Struct):
    id: str
    """What CUDA_VISIBLE_DEVICES calls it: its UUID."""
    index: int
    name: str
    memory_bytes: int
    memory_used_bytes: int
    utilization: float
    """0 to 1."""


class HostInfo(Struct):
    """One Dask worker: the host that tasks run on."""

    name: str
    address: str
    machine: str = ""
    threads: int = 0
    memory_bytes: int = 0
    """The Dask worker's memory limit, or the machine's memory where it has none."""
    cpu: float = 0.0
    """Cores in use by the host and its tasks."""
    memory_used_bytes: int = 0
    gpus: list[GpuInfo] = []
    """Those that the Dask worker may use, in the order in which it takes them."""
    warm: bool = False
    """TensorFlow is imported and tasks start at once."""
    drawn: str = ""
    """The host of the design that it is, where the cluster was drawn."""


class TaskSeat(Struct):
    """Where a task of a cluster's jobs is, in a run that asks for nothing else."""

    task: str
    """``worker:1``."""
    host: str
    gpus: list[int] = []
    """The numbers of the host's GPUs that are its ``GPU:0`` and so on; empty: it computes on the CPU."""
    memory_bytes: int = 0
    """The most it takes of each of its GPUs; 0: what it needs."""


class ClusterInfo(Struct):
    name: str
    kind: str
    state: ClusterState
    message: str = ""
    jobs: dict[str, int] = {}
    hosts: list[HostInfo] = []
    tasks: list[TaskSeat] = []
    """By rank; empty until the hosts are there."""
    created: float = 0.0
    active_runs: int = 0
    dashboard_url: str = ""
    """Dask's own dashboard, empty when it is off."""
    notes: list[str] = []
    """What a person should know, such as more tasks than cores."""


class FieldInfo(Struct):
    """One option of a kind of cluster, as a form shows it."""

    name: str
    title: str
    type: str  # integer, number, bytes, string, boolean, choice
    default: Any = None
    help: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: list[str] = []


class KindInfo(Struct):
    """A kind of cluster. ``lacks`` says what is missing where it is not available."""

    kind: str
    title: str
    available: bool
    lacks: str = ""
    fields: list[FieldInfo] = []


class Problem(Struct):
    """What is wrong with one field of a request."""

    field: str
    message: str
    level: str = "error"  # error, warning


class Preview(Struct):
    """What a ClusterRequest would make. Ports are chosen at the start of each run, so they are shown as 0."""

    cluster_spec: dict[str, list[str]]
    tf_config: dict[str, str]
    """TF_CONFIG as JSON text for each task, ``worker:0`` first; of the first hundred."""
    problems: list[Problem] = []
    hosts: list[HostDesign] = []
    """Those that there would be, as far as that is known beforehand."""


class Template(Struct):
    """A remembered cluster request."""

    name: str
    request: ClusterRequest

    def __post_init__(self) -> None:
        check_name(self.name)


class StatusInfo(Struct):
    """Versions, so that the browser can tell a stale server from a missing one."""

    version: str
    dask: str = ""
    tensorflow: str = ""
    """The installed version, empty where there is none."""
    notes: list[str] = []
    """What a person should know of this server, such as a store of past runs that cannot be read."""


class DashboardInfo(Struct):
    """Where Dask's own dashboard of a cluster is."""

    url: str


class ErrorInfo(Struct):
    """The body of every error answer."""

    message: str
    error: str
    """The name of the error's class."""
    field: str = ""


# -- the socket, browser to server ---------------------------------------------------------------------------------


class Subscribe(Struct, tag_field="type", tag="subscribe"):
    """Send this run's events after sequence number ``after`` (-1: all), and its series ``width`` pixels wide."""

    run: str
    after: int = -1
    width: int = 600
    x: str = "step"  # step, time


class Unsubscribe(Struct, tag_field="type", tag="unsubscribe"):
    run: str


ClientMessage = Union[Subscribe, Unsubscribe]


# -- the socket, server to browser ---------------------------------------------------------------------------------


class ClustersMessage(Struct, tag_field="type", tag="clusters"):
    """All clusters; sent on connecting and after every change."""

    clusters: list[ClusterInfo]


class RunsMessage(Struct, tag_field="type", tag="runs"):
    """Runs that are new or have changed. The first message after connecting (``all``) holds every run known."""

    runs: list[RunInfo]
    all: bool = False
    removed: list[str] = []


class EventsMessage(Struct, tag_field="type", tag="events"):
    """Events of a subscribed run but its points; ``next_seq`` is what to resume after, minus one.

    Each event is the struct of ``schema.events`` as JSON, with ``seq`` added.
    """

    run: str
    events: list[dict[str, Any]]
    next_seq: int


class SeriesFrame(Struct):
    """One line of one plot, decimated: keep the first ``start`` points that you have, then append these.

    null stands for a value that is not finite: a gap.
    """

    metric: str
    task: str
    """``worker:1``; empty for the mean over the tasks by step, which is there when more than one task reports."""
    start: int
    x: list[float | None]
    y: list[float | None]


class SeriesMessage(Struct, tag_field="type", tag="series"):
    """What changed in the decimated series of a subscribed run."""

    run: str
    frames: list[SeriesFrame]


class SocketError(Struct, tag_field="type", tag="error"):
    """A message that could not be followed."""

    message: str
    run: str = ""


ServerMessage = Union[ClustersMessage, RunsMessage, EventsMessage, SeriesMessage, SocketError]


def decode_client_message(data: bytes | str) -> ClientMessage:
    """A browser's message. Raises InvalidInput."""
    message: ClientMessage = decode_json(data, ClientMessage)  # type: ignore[arg-type]  # a union
    return message
