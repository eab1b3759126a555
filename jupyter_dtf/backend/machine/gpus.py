"""The GPUs that this process may use, according to NVIDIA's management library (NVML) or the driver."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from ...schema.machines import GpuInfo
from ...schema.sizes import bytes_
from .nvml import NVML

_DRIVER = Path("/proc/driver/nvidia/gpus")
_LITTLE = 0.1
"""The fraction of a GPU's memory that must be free for a task without a memory limit."""


def read_gpus(environment: Mapping[str, str] = os.environ, driver: Path = _DRIVER) -> list[GpuInfo]:
    """Return every GPU with its memory (bytes) and load (0 to 1). Takes about 1 ms.

    CUDA_VISIBLE_DEVICES, which Dask-CUDA sets for each of its workers, determines which GPUs are visible and their
    order. Without the library, the driver's information is used; memory and load are then 0 (unknown).

    Args:
        environment: The environment variables.
        driver: The driver's directory.

    Returns:
        The GPUs, empty if there are none or there is no driver.
    """
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    try:
        import pynvml
    except ImportError:
        return _visible(_told_by_driver(driver), visible)
    try:
        with NVML.reading() as nvml:
            whole = [_read(nvml, nvml.nvmlDeviceGetHandleByIndex(i), i) for i in range(nvml.nvmlDeviceGetCount())]
            return _visible(whole, visible, lambda uuid: _read(nvml, nvml.nvmlDeviceGetHandleByUUID(uuid), -1))
    except pynvml.NVMLError:  # no driver, a GPU is lost, or the driver is being replaced
        return []


def shortage(gpus: Iterable[GpuInfo], ids: Collection[str], cap_bytes: int) -> str:
    """Return a description of the GPUs among ``ids`` that have too little free memory for a task, or an empty string if
    there are none.

    ``cap_bytes`` is the maximum memory that the task uses on each GPU; 0: no limit.
    """
    short = []
    for gpu in gpus:
        free = gpu.memory_bytes - gpu.memory_used_bytes
        if gpu.id in ids and free < (cap_bytes or gpu.memory_bytes * _LITTLE) and gpu.memory_bytes:
            short.append(f"GPU {gpu.index} has {bytes_(free)} of {bytes_(gpu.memory_bytes)} free")
    return "; ".join(short)


def _visible(gpus: list[GpuInfo], visible: str | None, part: Any = None) -> list[GpuInfo]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES lists, in its order; ``part`` finds a MIG instance by UUID.

    Like CUDA, accept indices or UUID prefixes, and stop at the first entry that does not match exactly one GPU.
    """
    if visible is None:
        return gpus
    chosen: list[GpuInfo] = []
    for entry in (entry.strip() for entry in visible.split(",")):
        if entry.startswith("MIG-") and part is not None:
            chosen.append(part(entry))
            continue
        named = [g for g in gpus if (g.index == int(entry) if entry.isdecimal() else entry and g.id.startswith(entry))]
        if len(named) != 1:
            break
        chosen += named
    return chosen


def _read(nvml: Any, handle: Any, index: int) -> GpuInfo:
    memory = _memory(nvml, handle)
    try:
        load = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
    except nvml.NVMLError:  # a MIG instance has no utilization
        load = 0.0
    return GpuInfo(
        id=_text(nvml.nvmlDeviceGetUUID(handle)),
        index=index,
        name=_text(nvml.nvmlDeviceGetName(handle)),
        memory_bytes=int(memory.total),
        memory_used_bytes=int(memory.used),
        utilization=load,
    )


def _memory(nvml: Any, handle: Any) -> Any:
    """Return the memory of a GPU as ``nvidia-smi`` counts it: memory reserved by the driver does not count as used."""
    if (version := getattr(nvml, "nvmlMemory_v2", None)) is not None:
        try:
            return nvml.nvmlDeviceGetMemoryInfo(handle, version)
        except nvml.NVMLError:  # a driver older than 510, which supports only the first version
            pass
    return nvml.nvmlDeviceGetMemoryInfo(handle)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _told_by_driver(directory: Path) -> list[GpuInfo]:
    """Read the driver's directory: one subdirectory per GPU, named and ordered by PCI address."""
    gpus: list[GpuInfo] = []
    for path in sorted(directory.glob("*/information")):
        told = dict(re.findall(r"^([\w ]+):\s*(.+?)\s*$", path.read_text(), re.MULTILINE))
        if uuid := told.get("GPU UUID"):
            gpus.append(
                GpuInfo(
                    id=uuid,
                    index=len(gpus),
                    name=told.get("Model", "GPU"),
                    memory_bytes=0,
                    memory_used_bytes=0,
                    utilization=0.0,
                )
            )
    return gpus
