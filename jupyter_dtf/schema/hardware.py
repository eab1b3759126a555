"""The devices and networks that a forecast knows by name. Inert; the tables are in ``backend/planning``."""

from __future__ import annotations

from .base import PeerStruct


class DeviceFigures(PeerStruct):
    """The figures of a device, from its maker's data sheet."""

    name: str
    title: str = ""
    flops_per_s: dict[str, float] = {}
    """The peak by precision, without sparsity; ``fp32``, ``tf32``, ``bf16``, ``fp16``."""
    memory_bytes: int = 0
    memory_bytes_per_s: float = 0.0
    utilisation: float = 0.0
    """The fraction of its peak that training reaches without tuning."""
    source: str = ""


class NetworkFigures(PeerStruct):
    """The figures of a kind of network, in one direction."""

    name: str
    title: str = ""
    bytes_per_s: float = 0.0
    """The nominal rate."""
    efficiency: dict[str, float] = {}
    """The fraction of that which collectives reach, by transport: ``tcp``, ``rdma``; or ``local``, within a machine."""
    latency_s: dict[str, float] = {}
    """The latency of a small message, by transport."""
    is_local: bool = False
    """Whether it is within a machine."""
    source: str = ""


class Hardware(PeerStruct):
    """The devices and networks that a forecast knows by name."""

    devices: list[DeviceFigures]
    networks: list[NetworkFigures]
