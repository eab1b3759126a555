"""Descriptions of a cluster's hosts and of hosts that are starting, and series of their metrics over time."""

from __future__ import annotations

from .base import PeerStruct


class GpuInfo(PeerStruct):
    id: str
    """The name of the GPU in CUDA_VISIBLE_DEVICES: its UUID."""
    index: int
    name: str
    memory_bytes: int
    memory_used_bytes: int
    utilization: float
    """The utilization, from 0 to 1."""
    power_watts: float | None = None
    """None, like all following fields, if the GPU or its driver does not report the value."""
    temperature_celsius: float | None = None
    pcie_received_bytes_per_second: float | None = None
    pcie_sent_bytes_per_second: float | None = None
    nvlink_received_bytes_per_second: float | None = None
    """The total over all NVLinks."""
    nvlink_sent_bytes_per_second: float | None = None


class HostInfo(PeerStruct):
    """A host: one Dask worker and the tasks that run on it."""

    name: str
    address: str
    machine: str = ""
    threads: int = 0
    memory_bytes: int = 0
    """The Dask worker's memory limit, or the machine's memory if the worker has no limit."""
    cpu: float = 0.0
    """The number of cores in use by the host and its tasks."""
    memory_used_bytes: int = 0
    gpus: list[GpuInfo] = []
    """The GPUs that the Dask worker may use, in the order in which it uses them."""
    warm: bool = False
    """Whether TensorFlow is imported, so that tasks start immediately."""
    unguarded: str = ""
    """Why the ports of TensorFlow's servers are not closed to other users on this machine; empty if they are closed."""
    slots: int = 0
    """The host's share of the tasks, relative to other hosts; 0: the same share as any other."""
    drawn: str = ""
    """The host of the design with which this host was matched, if any."""
    problem: str = ""
    """The packages whose versions differ between host and cluster, with both versions; empty if none differs."""


class ComingHost(PeerStruct):
    """A host that was requested but is not yet, or no longer, a Dask worker."""

    name: str
    step: str
    """The current step, such as ``connecting`` or ``starting Python``; ``waiting`` until the next attempt."""
    problem: str = ""
    """Why the host could not be used, from its last output. The host is retried unless ``step`` is ``ended``."""


class MachineSeries(PeerStruct):
    """One metric of one host over time, oldest value first, and how to draw it (``HOST_FIGURES`` in ``metrics.py``)."""

    host: str
    metric: str
    plot: str = ""
    """The plot that the series shares with other series of the host; empty: a separate plot."""
    line: str = ""
    """The name of the series' line in the plot."""
    unit: str = ""
    """``cores``, ``bytes``, ``bytes_per_second``, ``fraction``, ``seconds``, or any other text to show after the
    number."""
    time: list[float] = []
    """Seconds since the epoch, by the host's clock."""
    value: list[float] = []
