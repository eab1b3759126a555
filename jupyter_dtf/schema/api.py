"""What the REST routes say: clusters and kinds as they are described, forms, previews, pages of output.

The browser's types (``src/api/schema.ts``) are generated from the structs of this package.
"""

from __future__ import annotations

import enum
from typing import Any

from .base import PeerStruct, Struct, convert
from .cluster import check_jobs
from .cluster_request import ClusterRequest, check_name
from .hosts import HostDesign
from .machines import ComingHost, HostInfo
from .trace import PROFILE_STEPS, check_count


class ClusterState(str, enum.Enum):
    """The life of a cluster as a viewer sees it."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"  # did not start; the message says why
    LOST = "lost"  # its process has died; it is shown until it is dismissed


class ClusterPatch(Struct):
    """A change to a running cluster: new counts of tasks per job."""

    jobs: dict[str, int]

    def __post_init__(self) -> None:
        check_jobs(self.jobs)


class ResumeRequest(Struct):
    """Where a run is to go on, and from which of its checkpoints."""

    cluster: str = ""
    """Empty: the one that it was on."""
    step: int | None = None
    """None: the newest."""

    def __post_init__(self) -> None:
        if self.cluster:
            check_name(self.cluster, "cluster")


class RunProfileRequest(Struct):
    """How many of a running run's next steps are to be traced."""

    steps: int = PROFILE_STEPS

    def __post_init__(self) -> None:
        check_count(self.steps)


class ExampleRequest(Struct):
    """Where an example is wanted: a folder, as the contents manager of the server calls it."""

    folder: str = ""


class ExampleCopy(PeerStruct):
    """The copy of an example, under a name that was free."""

    path: str


class TaskSeat(PeerStruct):
    """Where a task of a cluster's jobs is, in a run that asks for nothing else."""

    task: str
    """``worker:1``."""
    host: str
    gpus: list[int] = []
    """The numbers of the host's GPUs that are its ``GPU:0`` and so on; empty: it computes on the CPU."""
    memory_bytes: int = 0
    """The most it takes of each of its GPUs; 0: what it needs."""


class ClusterInfo(PeerStruct):
    name: str
    kind: str
    state: ClusterState
    message: str = ""
    jobs: dict[str, int] = {}
    hosts: list[HostInfo] = []
    coming: list[ComingHost] = []
    """Hosts that are on their way, where the kind tells of them."""
    tasks: list[TaskSeat] = []
    """By rank; empty until the hosts are there."""
    created: float = 0.0
    active_runs: int = 0
    notes: list[str] = []
    """What a person should know, such as more tasks than cores."""
    warnings: list[str] = []
    """What is wrong and should be acted on, such as runs that cannot be saved. Each says what can be done."""
    silent_s: float = 0.0
    """Seconds since it last answered, where that is longer than usual; 0 while it answers."""
    incompatible: str = ""
    """Why this version of jupyter_dtf cannot talk to it: which protocols both speak, and what to do. Empty: it can."""


def read_cluster(raw: Any) -> ClusterInfo:
    """The description of a cluster as a peer has told it. Raises InvalidInput.

    It has told it itself, so a state that this version does not know is one of a cluster that runs.
    """
    if (
        isinstance(raw, dict)
        and isinstance(state := raw.get("state"), str)
        and state not in [known.value for known in ClusterState]
    ):
        raw = {**raw, "state": ClusterState.RUNNING.value}
    return convert(raw, ClusterInfo)


class FieldInfo(PeerStruct):
    """One option of a kind of cluster, as a form shows it."""

    name: str
    title: str
    type: str
    """integer, number, bytes, string, boolean, choice; list: of texts, which forms and terminals part by commas."""
    default: Any = None
    help: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: list[str] = []
    counts_hosts: bool = False
    """It is the number of the cluster's hosts: where hosts are drawn, as many as those, and nobody is asked."""


class KindInfo(PeerStruct):
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
    script: str = ""
    """What is sent to a batch system for each host; empty where there is none."""
    fields: list[FieldInfo] = []
    """Options that the kind has beside those of ``KindInfo``, with what was given so far; such as a gateway's own."""


class Template(Struct):
    """A remembered cluster request."""

    name: str
    request: ClusterRequest

    def __post_init__(self) -> None:
        check_name(self.name)


class StatusInfo(PeerStruct):
    """Versions, so that the browser can tell a stale server from a missing one."""

    version: str
    protocol: int = 0
    """The newest protocol that the server speaks (``schema.protocol``), and the oldest."""
    oldest: int = 0
    dask: str = ""
    tensorflow: str = ""
    """The installed version, empty where there is none."""
    notes: list[str] = []
    """What a person should know of this server, such as a store of past runs that cannot be read."""


def dashboard_path(cluster: str) -> str:
    """Where Dask's own dashboard of a cluster is, below a Jupyter server's base URL."""
    return f"jupyter-dtf/api/clusters/{cluster}/dask/status"


class DashboardInfo(PeerStruct):
    """Where Dask's own dashboard of a cluster is: a path on the Jupyter server, which alone can reach it."""

    url: str


class OutputPage(PeerStruct):
    """A page of what a run's tasks have printed, oldest first. ``events`` are ``log`` events as JSON.

    The next page is asked for with ``before_time`` of the first, or ``after_time`` of the last.
    """

    run: str
    events: list[dict[str, Any]] = []
    earlier: bool = False
    """Whether there is more before it."""
    later: bool = False
    """Whether there is more behind it by now."""
    total: int = 0
    """How many lines the stream has by now; of a page by line numbers."""


class ErrorInfo(PeerStruct):
    """The body of every error answer."""

    message: str
    error: str
    """The name of the error's class."""
    field: str = ""
