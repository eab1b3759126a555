"""The structs of the REST routes: descriptions of clusters and kinds, forms, previews, pages of output.

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
    """The state of a cluster as a viewer sees it."""

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
    """On which cluster to resume a run, and from which of its checkpoints."""

    cluster: str = ""
    """Empty: the cluster that it ran on."""
    step: int | None = None
    """None: the newest."""

    def __post_init__(self) -> None:
        if self.cluster:
            check_name(self.cluster, "cluster")


class RunProfileRequest(Struct):
    """The number of next steps of a running run to trace."""

    steps: int = PROFILE_STEPS

    def __post_init__(self) -> None:
        check_count(self.steps)


class ExampleRequest(Struct):
    """The folder to copy an example to, as a path of the server's contents manager."""

    folder: str = ""


class ExampleCopy(PeerStruct):
    """The copy of an example, under a name that was free."""

    path: str


class TaskLocation(PeerStruct):
    """The place of a task of a cluster's jobs, in a run with default settings."""

    task: str
    """``worker:1``."""
    host: str
    gpus: list[int] = []
    """The indices of the host's GPUs that are its ``GPU:0`` and so on; empty: it computes on the CPU."""
    memory_bytes: int = 0
    """Its memory limit on each of its GPUs; 0: none."""


class ClusterInfo(PeerStruct):
    name: str
    kind: str
    state: ClusterState
    message: str = ""
    jobs: dict[str, int] = {}
    hosts: list[HostInfo] = []
    coming: list[ComingHost] = []
    """Hosts that are starting, if the kind reports them."""
    tasks: list[TaskLocation] = []
    """In order of rank; empty until the hosts are present."""
    created: float = 0.0
    active_runs: int = 0
    notes: list[str] = []
    """Notes for the user, such as more tasks than cores."""
    warnings: list[str] = []
    """Problems that need action, such as runs that cannot be saved. Each says what to do."""
    silent_s: float = 0.0
    """Seconds since it last responded, if that is longer than usual; 0 while it responds."""
    incompatible: str = ""
    """Why this version of jupyter_dtf cannot talk to it: which protocols both speak, and what to do. Empty: it can."""


def read_cluster(raw: Any) -> ClusterInfo:
    """The description of a cluster, received from itself. Raises InvalidInput.

    Because the cluster responds, a state that this version does not know is read as running.
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
    """integer, number, bytes, string, boolean, choice; list: of strings, separated by commas in forms and terminals."""
    default: Any = None
    help: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: list[str] = []
    counts_hosts: bool = False
    """Whether it is the number of the cluster's hosts, which a design with hosts determines."""


class KindInfo(PeerStruct):
    """A kind of cluster. ``missing`` says what it needs if it is not available."""

    kind: str
    title: str
    available: bool
    missing: str = ""
    fields: list[FieldInfo] = []


class Problem(Struct):
    """A problem of one field of a request."""

    field: str
    message: str
    level: str = "error"  # error, warning


class Preview(Struct):
    """The cluster that a ClusterRequest would start. Ports are 0: each run chooses its own."""

    cluster_spec: dict[str, list[str]]
    tf_config: dict[str, str]
    """TF_CONFIG as JSON text for each task, ``worker:0`` first; of the first hundred."""
    problems: list[Problem] = []
    hosts: list[HostDesign] = []
    """The hosts that it would have, as far as they are known beforehand."""
    script: str = ""
    """The script submitted to a batch system for each host; empty if there is none."""
    fields: list[FieldInfo] = []
    """Options of the kind in addition to those of ``KindInfo``, given the values so far; such as a gateway's own."""


class Template(Struct):
    """A saved cluster request."""

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
    """The installed version; empty if there is none."""
    notes: list[str] = []
    """Notes about this server for the user, such as a store of past runs that cannot be read."""


def dashboard_path(cluster: str) -> str:
    """Where Dask's own dashboard of a cluster is, below a Jupyter server's base URL."""
    return f"jupyter-dtf/api/clusters/{cluster}/dask/status"


class DashboardInfo(PeerStruct):
    """Where Dask's own dashboard of a cluster is: a path on the Jupyter server, which alone can reach it."""

    url: str


class OutputPage(PeerStruct):
    """A page of the output of a run's tasks, oldest first. ``events`` are ``log`` events as JSON.

    The next page is requested with ``before_time`` of the first, or ``after_time`` of the last.
    """

    run: str
    events: list[dict[str, Any]] = []
    earlier: bool = False
    """Whether there is earlier output."""
    later: bool = False
    """Whether there is later output by now."""
    total: int = 0
    """The number of lines of the stream so far, in a page by line numbers."""


class ErrorInfo(PeerStruct):
    """The body of every error answer."""

    message: str
    error: str
    """The name of the error's class."""
    field: str = ""
