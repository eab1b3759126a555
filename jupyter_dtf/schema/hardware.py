"""Devices and networks that a forecast knows by name. Inert; the tables are in ``backend/planning``."""

from __future__ import annotations

from .base import PeerStruct


class DeviceFigures(PeerStruct):
    """What a device does, by its maker's data sheet; of one example of it."""

    name: str
    title: str = ""
    flops_per_s: dict[str, float] = {}
    """The peak by precision, without sparsity; ``fp32``, ``tf32``, ``bf16``, ``fp16``."""
    memory_bytes: int = 0
    memory_bytes_per_s: float = 0.0
    utilisation: float = 0.0
    """What part of its peak training reaches that nobody has tuned."""
    source: str = ""


class NetworkFigures(PeerStruct):
    """What a kind of network carries, one way."""

    name: str
    title: str = ""
    bytes_per_s: float = 0.0
    """What is written on it."""
    efficiency: dict[str, float] = {}
    """What part of that a collective reaches, by transport: ``tcp``, ``rdma``; or ``local``, within a machine."""
    latency_s: dict[str, float] = {}
    """Of a small message, by transport."""
    is_local: bool = False
    """Whether it is within a machine."""
    source: str = ""


class Hardware(PeerStruct):
    """The devices and networks that a forecast knows by name."""

    devices: list[DeviceFigures]
    networks: list[NetworkFigures]
