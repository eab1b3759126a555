"""The figures of the machine that a host is on, which are recorded over time. A new one is read here.

``HOST_FIGURES`` of ``schema/metrics.py`` says what each is, its unit and the plot that it is drawn in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import psutil

from ...schema.machines import GpuInfo
from .gpu_sensors import SENSED


class Figures:
    """Reads the machine now and then; rates are since the reading before."""

    def __init__(self) -> None:
        self._before = _counters()

    def read(self, seconds: float, cpu: float, memory_bytes: int, gpus: Sequence[GpuInfo]) -> dict[str, float]:
        """Every figure by its name. ``cpu`` and ``memory_bytes`` are those of the host with its tasks, ``gpus`` its
        own; ``seconds`` have passed since the last reading. Costs about a millisecond.
        """
        now, before = _counters(), self._before
        self._before = now
        rates = {name: max(0.0, now[name] - before[name]) / seconds for name in now}
        figures = {
            "cpu": cpu,
            "memory_bytes": float(memory_bytes),
            "machine_cpu": rates["busy"],
            "machine_memory_bytes": float(_memory_used()),
            "received_bytes_per_second": rates["received"],
            "sent_bytes_per_second": rates["sent"],
        }
        for number, gpu in enumerate(gpus):
            figures[f"gpu{number}_utilization"] = gpu.utilization
            figures[f"gpu{number}_memory_bytes"] = float(gpu.memory_used_bytes)
            sensed = {name: getattr(gpu, name) for name in SENSED}
            figures.update({f"gpu{number}_{name}": value for name, value in sensed.items() if value is not None})
        return figures


def _memory_used() -> int:
    memory = psutil.virtual_memory()
    return int(memory.total - memory.available)


def _counters() -> dict[str, float]:
    """What only grows: seconds of all cores that were not idle, bytes over the network but the machine's to itself."""
    times = psutil.cpu_times()
    busy = sum(times) - times.idle - getattr(times, "iowait", 0.0)
    busy -= getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # which are in user and nice as well
    nics = []
    with contextlib.suppress(OSError, RuntimeError):  # a container may hide its interfaces
        nics = [nic for name, nic in psutil.net_io_counters(pernic=True).items() if name != "lo"]
    return {
        "busy": busy,
        "received": float(sum(nic.bytes_recv for nic in nics)),
        "sent": float(sum(nic.bytes_sent for nic in nics)),
    }
