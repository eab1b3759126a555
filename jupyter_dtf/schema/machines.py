"""What is told of a cluster's hosts: how they are, which are on their way, and their figures over time."""

from __future__ import annotations

from .base import PeerStruct


class GpuInfo(PeerStruct):
    id: str
    """What CUDA_VISIBLE_DEVICES calls it: its UUID."""
    index: int
    name: str
    memory_bytes: int
    memory_used_bytes: int
    utilization: float
    """0 to 1."""
    power_watts: float | None = None
    """As all that follows, None where the GPU or its driver does not tell."""
    temperature_celsius: float | None = None
    pcie_received_bytes_per_second: float | None = None
    pcie_sent_bytes_per_second: float | None = None
    nvlink_received_bytes_per_second: float | None = None
    """Over all its NVLinks together."""
    nvlink_sent_bytes_per_second: float | None = None


class HostInfo(PeerStruct):
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
    unguarded: str = ""
    """Why the ports of TensorFlow's servers cannot be closed to others on this machine; empty: they are."""
    slots: int = 0
    """How many of the tasks it takes, beside what other hosts say; 0: as many as any other."""
    drawn: str = ""
    """The host of the design that it is, where the cluster was drawn."""
    problem: str = ""
    """What it has of other versions than its cluster, both of each; empty: the same."""


class ComingHost(PeerStruct):
    """A host that was asked for and is no Dask worker yet, or no longer."""

    name: str
    step: str
    """What it is at, such as ``connecting`` and ``starting Python``; ``waiting``, until it is tried again."""
    problem: str = ""
    """Why it could not be used, in its own last words; it is tried again, unless its step is ``ended``."""


class MachineSeries(PeerStruct):
    """One figure of one host over time, oldest first, and how it is drawn (``HOST_FIGURES`` in ``metrics.py``)."""

    host: str
    metric: str
    plot: str = ""
    """The plot that it shares with other series of the host; empty: one of its own."""
    line: str = ""
    """What it is called there."""
    unit: str = ""
    """``cores``, ``bytes``, ``bytes_per_second``, ``fraction``, ``seconds``, or what stands behind the number."""
    time: list[float] = []
    """Seconds since the epoch, by the host's clock."""
    value: list[float] = []
