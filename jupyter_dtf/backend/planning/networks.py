"""The bandwidth and latency of networks between and within machines, and of the links between tasks. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import InvalidInput
from ...schema.forecast import ForecastSettings
from ...schema.hardware import NetworkFigures
from ...schema.placement import Link

TCP_EFFICIENCY = 0.55
"""The fraction of a network's nominal rate that collectives reach over TCP, which takes CPU time."""
RDMA_EFFICIENCY = 0.8
"""The same fraction over RDMA. The only losses are headers and the time for which pieces wait for each other."""
LOCAL_EFFICIENCY = 0.7
"""The fraction of the nominal rate that collectives reach over PCI Express or NVLink."""
TCP_LATENCY_S = 30e-6
RDMA_LATENCY_S = 5e-6


def _between(name: str, title: str, gbit: float, source: str = "IEEE 802.3") -> NetworkFigures:
    return NetworkFigures(
        name=name,
        title=title,
        bytes_per_s=gbit * 1e9 / 8,
        efficiency={"tcp": TCP_EFFICIENCY, "rdma": RDMA_EFFICIENCY},
        latency_s={"tcp": TCP_LATENCY_S, "rdma": RDMA_LATENCY_S},
        source=source,
    )


def _within(name: str, title: str, gbytes: float, latency_s: float, source: str) -> NetworkFigures:
    return NetworkFigures(
        name=name,
        title=title,
        bytes_per_s=gbytes * 1e9,
        efficiency={"local": LOCAL_EFFICIENCY if name != "memory" else 1.0},
        latency_s={"local": latency_s},
        is_local=True,
        source=source,
    )


NETWORKS = {
    network.name: network
    for network in (
        _between("1gbit", "1 Gbit/s Ethernet", 1),
        _between("10gbit", "10 Gbit/s Ethernet", 10),
        _between("25gbit", "25 Gbit/s Ethernet", 25),
        _between("50gbit", "50 Gbit/s Ethernet", 50),
        _between("100gbit", "100 Gbit/s Ethernet", 100),
        _between("infiniband-edr", "InfiniBand EDR, 100 Gbit/s", 100, "InfiniBand Trade Association"),
        _between("infiniband-hdr", "InfiniBand HDR, 200 Gbit/s", 200, "InfiniBand Trade Association"),
        _between("infiniband-ndr", "InfiniBand NDR, 400 Gbit/s", 400, "InfiniBand Trade Association"),
        _within("memory", "memory of one machine", 4.3, 5e-5, "python -m bench allreduce, two tasks on two cores"),
        _within("pcie3", "PCI Express 3.0 x16", 15.75, 1e-5, "PCI-SIG"),
        _within("pcie4", "PCI Express 4.0 x16", 31.5, 1e-5, "PCI-SIG"),
        _within("pcie5", "PCI Express 5.0 x16", 63.0, 1e-5, "PCI-SIG"),
        _within("nvlink1", "NVLink of P100", 80.0, 5e-6, "NVIDIA Tesla P100 data sheet"),
        _within("nvlink2", "NVLink of V100", 150.0, 5e-6, "NVIDIA V100 data sheet"),
        _within("nvlink3", "NVLink of A100", 300.0, 5e-6, "NVIDIA A100 data sheet"),
        _within("nvlink4", "NVLink of H100 and H200", 450.0, 5e-6, "NVIDIA H100 data sheet"),
    )
}
"""Bytes per second are per direction."""
USUAL = "10gbit"


@dataclass(frozen=True)
class Fabric:
    """The links between tasks: ``within`` links the ``per_machine`` tasks of a machine, ``between`` links machines."""

    within: Link
    between: Link
    per_machine: int
    title: str
    is_assumed: bool = False
    """Whether the network between machines is unknown."""

    def machines(self, tasks: int) -> int:
        return -(-tasks // self.per_machine)


def fabric(settings: ForecastSettings, per_machine: int, measured: Link | None, on_cpu: bool) -> Fabric:
    """Return the links that the settings name or, if they name none, the ``measured`` link. Raises InvalidInput."""
    local = _named(settings.local or ("memory" if on_cpu else "pcie3"), "local", is_local=True)
    between, title, is_assumed = settings.link, "a measured network", False
    if between is None and not settings.network and measured is not None:
        between = measured
    if between is None:
        network = _named(settings.network or USUAL, "network", is_local=False)
        between = link(network, settings.transport)
        title = f"{network.title} ({settings.transport.upper()})"
        is_assumed = not settings.network
    return Fabric(link(local, "local"), between, per_machine, title, is_assumed)


def link(network: NetworkFigures, transport: str) -> Link:
    """Return the bandwidth and latency that collectives reach on a network."""
    return Link(bytes_per_s=network.bytes_per_s * network.efficiency[transport], latency_s=network.latency_s[transport])


def _named(name: str, field: str, *, is_local: bool) -> NetworkFigures:
    found = NETWORKS.get(name)
    if found is None or found.is_local != is_local:
        known = ", ".join(each.name for each in NETWORKS.values() if each.is_local == is_local)
        raise InvalidInput(f"`{field}` must be one of {known}, got {name!r:.100}", field=field)
    return found
