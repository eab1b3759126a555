"""Structs of the REST routes: descriptions of clusters and kinds, forms, previews and pages of output.

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
    FAILED = "failed"  # did not start; the message gives the reason
    LOST = "lost"  # its process has died; the cluster is listed until a user dismisses it


class ClusterPatch(Struct):
    """A change to a running cluster: the new number of tasks of each job."""

    jobs: dict[str, int]

    def __post_init__(self) -> None:
        check_jobs(self.jobs)


class ResumeRequest(Struct):
    """The cluster on which to resume a run, and the checkpoint from which to resume it."""

    cluster: str = ""
    """The name of the cluster; empty: the cluster of the original run."""
    step: int | None = None
    """The step of the checkpoint. None: the newest checkpoint."""

    def __post_init__(self) -> None:
        if self.cluster:
            check_name(self.cluster, "cluster")


class RunProfileRequest(Struct):
    """A request to trace the next ``steps`` steps of an active run."""

    steps: int = PROFILE_STEPS

    def __post_init__(self) -> None:
        check_count(self.steps)


class ExampleRequest(Struct):
    """A request to copy an example into ``folder``, which is a path in the server's contents manager."""

    folder: str = ""


class ExampleCopy(PeerStruct):
    """The path of the copy of an example. Its file name was not in use before."""

    path: str


class TaskLocation(PeerStruct):
    """The host and the GPUs on which one task of a cluster would run with default settings."""

    task: str
    """The name of the task, such as ``worker:1``."""
    host: str
    gpus: list[int] = []
    """The indices of the host's GPUs that the task sees as ``GPU:0`` and so on; empty: the task computes on the CPU."""
    memory_bytes: int = 0
    """The task's memory limit on each of its GPUs; 0: no limit."""


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
    """The tasks in rank order; empty until the hosts have joined."""
    created: float = 0.0
    active_runs: int = 0
    notes: list[str] = []
    """Notes for the user, for example that there are more tasks than cores."""
    warnings: list[str] = []
    """Problems that require action, for example that runs cannot be saved. Each message states what to do."""
    silent_s: float = 0.0
    """Seconds since the cluster last responded, if that is longer than usual; 0 while it responds."""
    incompatible: str = ""
    """The reason why this version of jupyter_dtf cannot communicate with the cluster, with the protocols of both and
    advice; empty if it can."""


def read_cluster(raw: Any) -> ClusterInfo:
    """Decode a description that a cluster has sent about itself. Raises InvalidInput.

    A state that this version does not know is read as running, because the cluster responds.
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
    """``integer``, ``number``, ``bytes``, ``string``, ``boolean``, ``choice``, or ``list``: a list of strings, which
    are separated by commas in forms and on the command line."""
    default: Any = None
    help: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: list[str] = []
    counts_hosts: bool = False
    """Whether this option is the number of hosts. If a design lists its hosts, the design determines their number."""


class KindInfo(PeerStruct):
    """A kind of cluster. If it is not available, ``missing`` states what it needs."""

    kind: str
    title: str
    available: bool
    missing: str = ""
    fields: list[FieldInfo] = []


class Problem(Struct):
    """A problem with one field of a request."""

    field: str
    message: str
    level: str = "error"  # error, warning


class Preview(Struct):
    """The cluster that a ClusterRequest would start. Ports are 0, because each run chooses its own."""

    cluster_spec: dict[str, list[str]]
    tf_config: dict[str, str]
    """TF_CONFIG as a JSON string for each of the first hundred tasks, ``worker:0`` first."""
    problems: list[Problem] = []
    hosts: list[HostDesign] = []
    """The hosts that the cluster would have, as far as they are known in advance."""
    script: str = ""
    """The script that would be submitted to the batch system for each host; empty if the kind uses none."""
    fields: list[FieldInfo] = []
    """Options of the kind that depend on the values entered so far, such as the options that the chosen gateway offers.
    They are shown after the options in ``KindInfo``."""


class Template(Struct):
    """A saved cluster request."""

    name: str
    request: ClusterRequest

    def __post_init__(self) -> None:
        check_name(self.name)


class StatusInfo(PeerStruct):
    """The versions and notes of the server, so that the browser can tell an outdated server from a missing one."""

    version: str
    protocol: int = 0
    """The newest protocol that the server supports (``schema.protocol``); ``oldest`` is the oldest."""
    oldest: int = 0
    dask: str = ""
    tensorflow: str = ""
    """The installed version of TensorFlow; empty if it is not installed."""
    notes: list[str] = []
    """Notes about this server for the user, for example that the store of past runs cannot be read."""


def dashboard_path(cluster: str) -> str:
    """Return the path of a cluster's Dask dashboard, relative to a Jupyter server's base URL."""
    return f"jupyter-dtf/api/clusters/{cluster}/dask/status"


class DashboardInfo(PeerStruct):
    """The path of a cluster's Dask dashboard on the Jupyter server, through which browsers reach the dashboard."""

    url: str


class OutputPage(PeerStruct):
    """A page of the output of a run's tasks, oldest first. ``events`` are ``log`` events as JSON.

    To request the adjacent page, pass the time of the first event as ``before_time``, or that of the last event as
    ``after_time``.
    """

    run: str
    events: list[dict[str, Any]] = []
    earlier: bool = False
    """Whether there is output before this page."""
    later: bool = False
    """Whether there was output after this page when the page was read."""
    total: int = 0
    """The number of lines of the stream so far, if the page was requested by line numbers; otherwise 0."""


class ErrorInfo(PeerStruct):
    """The body of every error response."""

    message: str
    error: str
    """The class name of the error."""
    field: str = ""
