"""The hosts of a cluster: their descriptions, those that are starting, and their figures over time."""

from __future__ import annotations

from .base import PeerStruct


class GpuInfo(PeerStruct):
    id: str
    """Its name in CUDA_VISIBLE_DEVICES: the UUID."""
    index: int
    name: str
    memory_bytes: int
    memory_used_bytes: int
    utilization: float
    """0 to 1."""
    power_watts: float | None = None
    """Like all fields below, None if the GPU or its driver does not report it."""
    temperature_celsius: float | None = None
    pcie_received_bytes_per_second: float | None = None
    pcie_sent_bytes_per_second: float | None = None
    nvlink_received_bytes_per_second: float | None = None
    """The total of its NVLinks."""
    nvlink_sent_bytes_per_second: float | None = None


class HostInfo(PeerStruct):
    """One Dask worker: the host that tasks run on."""

    name: str
    address: str
    machine: str = ""
    threads: int = 0
    memory_bytes: int = 0
    """The Dask worker's memory limit, or the machine's memory if there is none."""
    cpu: float = 0.0
    """Cores in use by the host and its tasks."""
    memory_used_bytes: int = 0
    gpus: list[GpuInfo] = []
    """The GPUs that the Dask worker may use, in the order in which it uses them."""
    warm: bool = False
    """Whether TensorFlow is imported, so that tasks start immediately."""
    unguarded: str = ""
    """Why the ports of TensorFlow's servers cannot be closed to other users on this machine; empty: they are closed."""
    slots: int = 0
    """Its share of the tasks, relative to other hosts; 0: as many as any other."""
    drawn: str = ""
    """The host of the design that it was matched with, if any."""
    problem: str = ""
    """The versions that differ from those of its cluster, with both; empty: none."""


class ComingHost(PeerStruct):
    """A host that was requested but is not a Dask worker yet, or no longer."""

    name: str
    step: str
    """The current step, such as ``connecting`` and ``starting Python``; ``waiting`` until the next attempt."""
    problem: str = ""
    """Why it could not be used, from its last output; it is retried, unless its step is ``ended``."""


class MachineSeries(PeerStruct):
    """One figure of one host over time, oldest first, and how to draw it (``HOST_FIGURES`` in ``metrics.py``)."""

    host: str
    metric: str
    plot: str = ""
    """The plot that it shares with other series of the host; empty: its own plot."""
    line: str = ""
    """The name of its line there."""
    unit: str = ""
    """``cores``, ``bytes``, ``bytes_per_second``, ``fraction``, ``seconds``, or the text after the number."""
    time: list[float] = []
    """Seconds since the epoch, by the host's clock."""
    value: list[float] = []
