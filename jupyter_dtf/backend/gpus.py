"""The GPUs of this machine, as NVIDIA's management library tells of them. Where there is none, there are none."""

from __future__ import annotations

from typing import Any

from ..schema.api import GpuInfo


def read_gpus() -> list[GpuInfo]:
    """Every GPU with its memory (bytes) and load (0 to 1); empty without GPUs, driver or library. Costs about 1 ms."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        return [_read(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:  # a GPU that has fallen off the bus, or a driver that is being replaced
        return []
    finally:
        pynvml.nvmlShutdown()


def _read(nvml: Any, index: int) -> GpuInfo:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    name = nvml.nvmlDeviceGetName(handle)
    load = nvml.nvmlDeviceGetUtilizationRates(handle)
    return GpuInfo(
        index=index,
        name=name.decode() if isinstance(name, bytes) else str(name),
        memory_bytes=int(memory.total),
        memory_used_bytes=int(memory.used),
        utilization=load.gpu / 100,
    )
