"""Reading GPUs, with a stand-in for NVIDIA's library: no machine of the tests has one."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from jupyter_dtf.backend.gpus import read_gpus


class FakeNvml(ModuleType):
    """What is used of ``pynvml``, for two GPUs."""

    class NVMLError(Exception):
        pass

    def __init__(self, *, driver: bool = True, broken: bool = False) -> None:
        super().__init__("pynvml")
        self.driver = driver
        self.broken = broken
        self.open = 0

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.driver:
            raise self.NVMLError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802
        if self.broken:
            raise self.NVMLError("GPU is lost")
        return SimpleNamespace(total=24 << 30, used=(handle + 1) << 30)

    def nvmlDeviceGetName(self, handle: int) -> str | bytes:  # noqa: N802
        return "GPU" if handle else b"GPU"

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(gpu=50 * handle)


def test_every_gpu_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    first, second = read_gpus()
    assert (first.index, first.name, first.memory_used_bytes, first.utilization) == (0, "GPU", 1 << 30, 0.0)
    assert (second.index, second.name, second.memory_bytes, second.utilization) == (1, "GPU", 24 << 30, 0.5)
    assert nvml.open == 0


@pytest.mark.parametrize("nvml", [None, FakeNvml(driver=False), FakeNvml(broken=True)])
def test_without_library_driver_or_a_working_gpu_there_is_none(
    nvml: FakeNvml | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert read_gpus() == []
    assert nvml is None or nvml.open == 0
