"""The figures of a host's machine that are recorded over time. Add new figures here.

``HOST_FIGURES`` in ``schema/metrics.py`` contains the description, the unit and the plot of each.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import psutil

from ...schema.machines import GpuInfo
from .gpu_sensors import SENSED


class Figures:
    """Reads the machine's figures; rates are averages since the previous reading."""

    def __init__(self) -> None:
        self._before = _counters()

    def read(self, seconds: float, cpu: float, memory_bytes: int, gpus: Sequence[GpuInfo]) -> dict[str, float]:
        """Read all figures. Takes about a millisecond.

        Args:
            seconds: The time since the previous reading.
            cpu: The average number of cores used by the host and its tasks.
            memory_bytes: The memory used by the host and its tasks.
            gpus: The GPUs of the host.

        Returns:
            The figures, keyed by name.
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
    """Return counters: busy seconds of all cores, and bytes transferred over all network interfaces except the
    loopback.
    """
    times = psutil.cpu_times()
    busy = sum(times) - times.idle - getattr(times, "iowait", 0.0)
    busy -= getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # already included in user and nice
    nics = []
    with contextlib.suppress(OSError, RuntimeError):  # a container may hide its interfaces
        nics = [nic for name, nic in psutil.net_io_counters(pernic=True).items() if name != "lo"]
    return {
        "busy": busy,
        "received": float(sum(nic.bytes_recv for nic in nics)),
        "sent": float(sum(nic.bytes_sent for nic in nics)),
    }
