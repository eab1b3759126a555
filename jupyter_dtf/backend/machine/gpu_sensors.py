"""Readings of GPUs other than memory and load: power, temperature and traffic. A GPU or driver may lack any of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from ...schema.machines import GpuInfo
from .nvml import NVML

_MOST_LINKS = 36
"""An upper bound on the number of NVLinks of a GPU."""
_ALL_LINKS = 2**32 - 1
"""The scope of a counter that covers all NVLinks of a GPU together."""
_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""The members of NVML's union of values, indexed by the type that NVML reports."""

_SENSORS: dict[str, Callable[[Any, Any], float]] = {
    "power_watts": lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000,
    "temperature_celsius": lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
    "pcie_received_bytes_per_second": lambda nvml, gpu: (
        1000 * nvml.nvmlDeviceGetPcieThroughput(gpu, nvml.NVML_PCIE_UTIL_RX_BYTES)
    ),
    "pcie_sent_bytes_per_second": lambda nvml, gpu: (
        1000 * nvml.nvmlDeviceGetPcieThroughput(gpu, nvml.NVML_PCIE_UTIL_TX_BYTES)
    ),
}
_COUNTERS = {
    "nvlink_received_bytes_per_second": "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX",
    "nvlink_sent_bytes_per_second": "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX",
}
"""Fields that count KiB since the driver was loaded."""

SENSED = (*_SENSORS, *_COUNTERS)
"""The fields of ``GpuInfo`` that are read here. A field is None if the GPU does not report it."""


class GpuSensors:
    """Reads the sensors of GPUs in a thread, because NVML measures PCIe traffic for 20 ms per GPU and direction.

    Only one reading is in progress at a time. Values that a GPU permanently refuses are not requested again.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[str, dict[str, float]] = {}
        self._refused: set[tuple[str, str]] = set()
        self._linked: dict[str, bool] = {}
        self._counted: dict[tuple[str, str], tuple[float, float]] = {}
        self._thread: threading.Thread | None = None
        self._has_library = True

    def begin(self, ids: Sequence[str]) -> threading.Thread | None:
        """Start reading the GPUs with these UUIDs. Returns the reading thread, or None if there is nothing to read.

        If a reading is still in progress, it continues, and the values of the reading before it are dropped.
        """
        if not ids or not self._has_library:
            return None
        if self._thread is not None and self._thread.is_alive():
            self._told = {}
            return self._thread
        self._thread = threading.Thread(target=self.read, args=[ids], name="dtf-gpu-sensors", daemon=True)
        self._thread.start()
        return self._thread

    def completed(self, gpus: Iterable[GpuInfo]) -> list[GpuInfo]:
        """Return ``gpus`` with the values of the last reading filled in."""
        told = self._told
        return [msgspec.structs.replace(gpu, **told.get(gpu.id, {})) for gpu in gpus]

    def read(self, ids: Sequence[str]) -> None:
        """Read the GPUs with these UUIDs now. Takes 40 ms for each."""
        try:
            import pynvml
        except ImportError:
            self._has_library = False
            return
        try:
            with NVML.reading() as nvml:
                self._told = {gpu: self._read(nvml, gpu) for gpu in ids}
        except pynvml.NVMLError:
            self._told = {}

    def _read(self, nvml: Any, gpu: str) -> dict[str, float]:
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(gpu)
        except nvml.NVMLError:  # it has fallen off the bus, or the driver is being replaced
            NVML.failed()
            return {}
        told: dict[str, float | None] = {}
        for name, sensor in _SENSORS.items():
            told[name] = self._ask(nvml, gpu, name, partial(sensor, nvml, handle))
        if self._has_links(nvml, gpu, handle):
            for name, field in _COUNTERS.items():
                count = self._ask(nvml, gpu, name, partial(_counter, nvml, handle, field))
                told[name] = None if count is None else self._rate((gpu, name), 1024 * count)
        return {name: float(value) for name, value in told.items() if value is not None}

    def _ask(self, nvml: Any, gpu: str, name: str, ask: Callable[[], float]) -> float | None:
        """Return the result of ``ask``, or None if it fails. After a permanent refusal, ``ask`` is not called again."""
        if (gpu, name) in self._refused:
            return None
        try:
            return ask()
        except AttributeError:  # a library older than that call
            self._refused.add((gpu, name))
        except nvml.NVMLError as error:
            if error.value in (
                nvml.NVML_ERROR_INVALID_ARGUMENT,
                nvml.NVML_ERROR_NOT_SUPPORTED,
                nvml.NVML_ERROR_NO_PERMISSION,
                nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            ):
                self._refused.add((gpu, name))
            else:
                NVML.failed()
        return None

    def _has_links(self, nvml: Any, gpu: str, handle: Any) -> bool:
        """Return whether any NVLink is up. Without one, counters may be 0, which would be misleading."""
        if gpu not in self._linked:
            self._linked[gpu] = any(_is_up(nvml, handle, link) for link in range(_MOST_LINKS))
        return self._linked[gpu]

    def _rate(self, counter: tuple[str, str], count: float) -> float | None:
        """Return a counter's increase per second since it was last read; None at first, and after a reset."""
        now, before = self._clock(), self._counted.get(counter)
        self._counted[counter] = (now, count)
        if before is None or count < before[1] or now <= before[0]:
            return None
        return (count - before[1]) / (now - before[0])


def _is_up(nvml: Any, handle: Any, link: int) -> bool:
    try:
        return bool(nvml.nvmlDeviceGetNvLinkState(handle, link) == nvml.NVML_FEATURE_ENABLED)
    except nvml.NVMLError:
        return False


def _counter(nvml: Any, handle: Any, field: str) -> int:
    (told,) = nvml.nvmlDeviceGetFieldValues(handle, [(getattr(nvml, field), _ALL_LINKS)])
    if told.nvmlReturn != nvml.NVML_SUCCESS:
        raise nvml.NVMLError(told.nvmlReturn)
    return int(getattr(told.value, _MEMBERS[told.valueType]))
