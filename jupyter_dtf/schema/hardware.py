"""The devices and networks that forecasts know by name. The tables of their values are in ``backend/planning``."""

from __future__ import annotations

from .base import PeerStruct


class DeviceFigures(PeerStruct):
    """The specifications of a device, from its manufacturer's data sheet."""

    name: str
    title: str = ""
    flops_per_s: dict[str, float] = {}
    """The peak performance without sparsity, keyed by precision: ``fp32``, ``tf32``, ``bf16``, ``fp16``."""
    memory_bytes: int = 0
    memory_bytes_per_s: float = 0.0
    utilization: float = 0.0
    """The fraction of the peak performance that training reaches without tuning."""
    source: str = ""


class NetworkFigures(PeerStruct):
    """The specifications of a kind of network, in one direction."""

    name: str
    title: str = ""
    bytes_per_s: float = 0.0
    """The nominal bandwidth."""
    efficiency: dict[str, float] = {}
    """The fraction of the bandwidth that collectives reach, keyed by transport: ``tcp``, ``rdma``, or ``local`` within
    a machine."""
    latency_s: dict[str, float] = {}
    """The latency of a small message, keyed by transport."""
    is_local: bool = False
    """Whether the network connects devices of one machine."""
    source: str = ""


class Hardware(PeerStruct):
    """The devices and networks that a forecast knows by name."""

    devices: list[DeviceFigures]
    networks: list[NetworkFigures]
