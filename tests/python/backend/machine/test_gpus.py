"""Reading GPUs, with a stand-in for NVIDIA's library, because test machines need not have a GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from jupyter_dtf.backend.machine.gpus import read_gpus, shortage
from jupyter_dtf.schema.machines import GpuInfo

RESERVED = 512 << 20
"""Bytes of a GPU's memory that the driver keeps for itself."""


class FakeNvml(ModuleType):
    """The parts of ``pynvml`` that are used, for two GPUs."""

    NVML_SUCCESS, NVML_FEATURE_ENABLED, NVML_TEMPERATURE_GPU = 0, 1, 0
    NVML_ERROR_INVALID_ARGUMENT, NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NO_PERMISSION = 2, 3, 4
    NVML_ERROR_FUNCTION_NOT_FOUND, NVML_ERROR_GPU_IS_LOST = 13, 15
    NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES = 0, 1
    nvmlMemory_v2 = 0x2000028  # noqa: N815
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 138, 139

    class NVMLError(Exception):
        def __init__(self, value: int | str = 999) -> None:
            super().__init__(value)
            self.value = value

    def __init__(self, *, driver: bool = True, broken: bool = False, tells_reserved: bool = True) -> None:
        super().__init__("pynvml")
        self.tells_reserved = tells_reserved
        self.driver = driver
        self.broken = broken
        self.open = 0
        self.opened = 0
        """How often it was initialized."""
        self.refuses: dict[str, int] = {}
        """What the driver refuses, and with which error."""
        self.asked: list[str] = []
        self.links = 4
        self.sent_kib = {138: 0, 139: 0}

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if what in self.refuses:
            raise self.NVMLError(self.refuses[what])

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:  # noqa: N802
        self._ask("power")
        return 71500 + handle

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:  # noqa: N802
        assert sensor == self.NVML_TEMPERATURE_GPU
        self._ask("temperature")
        return 64 + handle

    def nvmlDeviceGetPcieThroughput(self, handle: int, counter: int) -> int:  # noqa: N802
        self._ask(("sent", "received")[counter])
        return 1000 * (1 + counter) + handle

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int) -> int:  # noqa: N802
        if link >= self.links:
            raise self.NVMLError(self.NVML_ERROR_INVALID_ARGUMENT)
        return self.NVML_FEATURE_ENABLED

    def nvmlDeviceGetFieldValues(self, handle: int, fields: list[tuple[int, int]]) -> list[SimpleNamespace]:  # noqa: N802
        ((field, scope),) = fields
        assert scope == 2**32 - 1, "all links together"
        self.asked.append(f"field {field}")
        refused = self.refuses.get(f"field {field}", 0)
        value = SimpleNamespace(ullVal=self.sent_kib[field])
        return [SimpleNamespace(nvmlReturn=refused, valueType=3, value=value)]

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.driver:
            raise self.NVMLError("Driver Not Loaded")
        self.open += 1
        self.opened += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetMemoryInfo(self, handle: int, version: int | None = None) -> SimpleNamespace:  # noqa: N802
        if self.broken:
            raise self.NVMLError("GPU is lost")
        if version is not None and not self.tells_reserved:
            raise self.NVMLError("Function Not Found")
        reserved = 0 if version is not None else RESERVED
        return SimpleNamespace(total=24 << 30, used=((handle + 1) << 30) + reserved)

    def nvmlDeviceGetName(self, handle: int) -> str | bytes:  # noqa: N802
        return "GPU" if handle else b"GPU"

    def nvmlDeviceGetUUID(self, handle: int) -> str | bytes:  # noqa: N802
        return f"GPU-{handle}a" if handle < 2 else "MIG-2"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:  # noqa: N802
        self._ask(uuid)
        known = {"GPU-0a": 0, "GPU-1a": 1, "MIG-2": 2}
        if uuid not in known:
            raise self.NVMLError("Not Found")
        return known[uuid]

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> SimpleNamespace:  # noqa: N802
        if handle == 2:
            raise self.NVMLError("Not Supported")
        return SimpleNamespace(gpu=50 * handle)


def test_every_gpu_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    first, second = read_gpus({})
    assert (first.id, second.id) == ("GPU-0a", "GPU-1a")
    assert (first.index, first.name, first.memory_used_bytes, first.utilization) == (0, "GPU", 1 << 30, 0.0)
    assert (second.index, second.name, second.memory_bytes, second.utilization) == (1, "GPU", 24 << 30, 0.5)


def test_an_old_driver_counts_what_it_reserves_as_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(tells_reserved=False))
    assert read_gpus({})[0].memory_used_bytes == (1 << 30) + RESERVED


@pytest.mark.parametrize("nvml", [None, FakeNvml(driver=False), FakeNvml(broken=True)])
def test_without_library_driver_or_a_working_gpu_there_is_none(
    nvml: FakeNvml | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert read_gpus({}, tmp_path) == []
    assert nvml is None or nvml.open == 0


@pytest.mark.parametrize(
    ("visible", "ids"),
    [
        ("1,0", ["GPU-1a", "GPU-0a"]),  # as Dask-CUDA sets it for its second worker
        ("GPU-1", ["GPU-1a"]),
        ("0, MIG-2", ["GPU-0a", "MIG-2"]),
        ("1,7,0", ["GPU-1a"]),  # CUDA stops at the first device that does not exist
        ("-1", []),
        ("", []),
    ],
)
def test_cuda_visible_devices_says_which_and_in_what_order(
    visible: str, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    assert [gpu.id for gpu in read_gpus({"CUDA_VISIBLE_DEVICES": visible})] == ids


def test_without_the_library_the_driver_says_what_there_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    for address, uuid in (("0000:81:00.0", "GPU-b"), ("0000:01:00.0", "GPU-a")):
        (tmp_path / address).mkdir()
        text = f"Model: \t\t NVIDIA L4\nIRQ:   \t\t 30\nGPU UUID: \t {uuid}\nBus Location: \t {address}\n"
        (tmp_path / address / "information").write_text(text)
    found = read_gpus({"CUDA_VISIBLE_DEVICES": "1,0"}, tmp_path)
    assert [(gpu.id, gpu.index, gpu.name, gpu.memory_bytes) for gpu in found] == [
        ("GPU-b", 1, "NVIDIA L4", 0),
        ("GPU-a", 0, "NVIDIA L4", 0),
    ]


@pytest.mark.parametrize(
    ("held_gib", "cap_gib", "is_short"),
    [(0, 0, False), (14, 0, False), (15, 0, True), (10, 8, True), (10, 4, False), (0, 15, False)],
)
def test_too_little_free_memory_is_a_shortage(held_gib: int, cap_gib: int, is_short: bool) -> None:
    gpus = [
        GpuInfo(
            id=f"GPU-{name}",
            index=index,
            name="L4",
            memory_bytes=size << 30,
            memory_used_bytes=held << 30,
            utilization=0.0,
        )
        for index, (name, size, held) in enumerate([("other", 16, 16), ("a", 16, held_gib), ("untold", 0, 0)])
    ]
    found = shortage(gpus, ["GPU-a", "GPU-untold"], cap_gib << 30)
    assert found == (f"GPU 1 has {16 - held_gib}.0 GiB of 16.0 GiB free" if is_short else "")
