from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import psutil
import pytest

from jupyter_dtf.backend.machine.figures import Figures
from jupyter_dtf.backend.machine.gpu_sensors import GpuSensors
from jupyter_dtf.backend.machine.gpus import read_gpus
from jupyter_dtf.schema.metrics import HOST_FIGURES

from .test_gpus import FakeNvml


def test_every_figure_is_read_and_every_one_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    sensors = GpuSensors()
    for _ in range(2):  # counters have to be read twice
        sensors.read(["GPU-0a", "GPU-1a"])
    found = Figures().read(2.0, 1.5, 1 << 30, sensors.completed(read_gpus({})))
    assert (found["cpu"], found["memory_bytes"]) == (1.5, 1 << 30)
    assert (found["gpu0_utilization"], found["gpu1_utilization"]) == (0.0, 0.5)
    assert (found["gpu0_memory_bytes"], found["gpu1_memory_bytes"]) == (1 << 30, 2 << 30)
    assert (found["gpu1_power_watts"], found["gpu0_temperature_celsius"]) == (71.501, 64)
    assert 0 < found["machine_memory_bytes"] <= psutil.virtual_memory().total
    assert {re.sub(r"(?<=gpu)[0-9]+", "#", name) for name in found} == set(HOST_FIGURES)


def test_what_a_gpu_does_not_tell_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    found = Figures().read(2.0, 1.5, 1 << 30, read_gpus({"CUDA_VISIBLE_DEVICES": "1"}))
    assert sorted(name for name in found if name.startswith("gpu")) == ["gpu0_memory_bytes", "gpu0_utilization"]


def test_rates_are_since_the_reading_before_and_of_other_machines_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def set_to(busy: float, idle: float, received: int, sent: int) -> None:
        monkeypatch.setattr(psutil, "cpu_times", lambda: _Times(busy, idle))
        nics = {
            "eth0": SimpleNamespace(bytes_recv=received, bytes_sent=sent),
            "lo": SimpleNamespace(bytes_recv=10**9 * received, bytes_sent=10**9),
        }
        monkeypatch.setattr(psutil, "net_io_counters", lambda pernic: nics)

    set_to(100.0, 5.0, 1000, 50)
    read = Figures()
    set_to(103.0, 6.0, 1400, 50)
    found = read.read(2.0, 0.0, 0, [])
    assert (found["machine_cpu"], found["received_bytes_per_second"], found["sent_bytes_per_second"]) == (1.5, 200, 0)
    set_to(103.0, 8.0, 7, 50)  # an interface was recreated
    assert read.read(2.0, 0.0, 0, [])["received_bytes_per_second"] == 0


class _Times(tuple[float, float]):
    """CPU times as in psutil: a tuple with names."""

    def __new__(cls, user: float, idle: float) -> _Times:
        return super().__new__(cls, (user, idle))

    @property
    def idle(self) -> float:
        return self[1]


def test_a_container_that_hides_its_interfaces_has_the_other_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pernic: bool) -> None:
        raise PermissionError(13, "/proc/net/dev")

    monkeypatch.setattr(psutil, "net_io_counters", refuse)
    found = Figures().read(2.0, 0.25, 7, [])
    assert (found["cpu"], found["received_bytes_per_second"]) == (0.25, 0)
