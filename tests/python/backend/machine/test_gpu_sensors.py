from __future__ import annotations

import sys
import threading

import pytest

from jupyter_dtf.backend.machine.gpu_sensors import SENSED, GpuSensors
from jupyter_dtf.backend.machine.gpus import read_gpus
from jupyter_dtf.schema.machines import GpuInfo

from .test_gpus import FakeNvml

ONE = "GPU-0a"


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    found = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", found)
    return found


def told(sensors: GpuSensors, gpu: str = ONE) -> dict[str, float]:
    (found,) = [each for each in sensors.completed(read_gpus({})) if each.id == gpu]
    return {name: value for name in SENSED if (value := getattr(found, name)) is not None}


def test_power_temperature_and_traffic_of_each_gpu(nvml: FakeNvml) -> None:
    times = iter([0.0, 0.0, 0.0, 0.0, 2.0, 2.0, 2.0, 2.0])
    sensors = GpuSensors(clock=lambda: next(times))
    sensors.read([ONE, "GPU-1a"])
    now = {
        "power_watts": 71.5,
        "temperature_celsius": 64,
        "pcie_received_bytes_per_second": 2e6,
        "pcie_sent_bytes_per_second": 1e6,
    }
    assert told(sensors) == now  # NVLink traffic is counted, so a rate needs two readings
    nvml.sent_kib = {138: 10, 139: 40}
    sensors.read([ONE, "GPU-1a"])
    linked = {"nvlink_received_bytes_per_second": 40 * 512, "nvlink_sent_bytes_per_second": 10 * 512}
    assert told(sensors) == {**now, **linked}
    assert told(sensors, "GPU-1a")["pcie_sent_bytes_per_second"] == 1.001e6
    assert (nvml.opened, nvml.open) == (1, 1)  # once for both readings and those of ``told``


@pytest.mark.parametrize(
    ("what", "figure"),
    [
        ("power", "power_watts"),
        ("temperature", "temperature_celsius"),
        ("received", "pcie_received_bytes_per_second"),
        ("sent", "pcie_sent_bytes_per_second"),
        ("field 138", "nvlink_sent_bytes_per_second"),
        ("field 139", "nvlink_received_bytes_per_second"),
    ],
)
def test_what_is_not_supported_is_absent_alone_and_not_asked_again(what: str, figure: str, nvml: FakeNvml) -> None:
    nvml.refuses[what] = nvml.NVML_ERROR_NOT_SUPPORTED
    sensors = GpuSensors()
    for _ in range(3):
        sensors.read([ONE])
    assert set(told(sensors)) == set(SENSED) - {figure}
    assert nvml.asked.count(what) == 1


def test_what_fails_once_is_asked_again(nvml: FakeNvml) -> None:
    nvml.refuses["power"] = nvml.NVML_ERROR_GPU_IS_LOST
    sensors = GpuSensors()
    sensors.read([ONE])
    assert nvml.open == 0  # to be initialized again
    assert "power_watts" not in told(sensors)
    nvml.refuses.clear()
    sensors.read([ONE])
    assert told(sensors)["power_watts"] == 71.5
    assert (nvml.opened, nvml.open) == (2, 1)


def test_a_gpu_without_nvlinks_has_no_traffic_over_them_rather_than_none(nvml: FakeNvml) -> None:
    nvml.links = 0
    sensors = GpuSensors()
    for _ in range(2):
        sensors.read([ONE])
    assert not [name for name in told(sensors) if "nvlink" in name]


def test_a_counter_that_begins_anew_tells_nothing_once(nvml: FakeNvml) -> None:
    times = iter(map(float, range(100)))
    sensors = GpuSensors(clock=lambda: next(times))
    for kib in (50, 20):
        nvml.sent_kib = {138: kib, 139: kib}
        sensors.read([ONE])
    assert "nvlink_sent_bytes_per_second" not in told(sensors)
    nvml.sent_kib = {138: 22, 139: 20}
    sensors.read([ONE])
    assert told(sensors)["nvlink_sent_bytes_per_second"] == 1024  # 2 KiB in two ticks of the clock
    assert told(sensors)["nvlink_received_bytes_per_second"] == 0


def test_a_library_of_before_a_call_costs_that_figure_alone(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(FakeNvml, "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX")
    monkeypatch.delattr(FakeNvml, "nvmlDeviceGetPcieThroughput")
    sensors = GpuSensors()
    for _ in range(2):
        sensors.read([ONE])
    assert set(told(sensors)) == {"power_watts", "temperature_celsius", "nvlink_received_bytes_per_second"}


def test_a_gpu_that_is_lost_does_not_take_the_others_with_it(nvml: FakeNvml) -> None:
    nvml.refuses[ONE] = nvml.NVML_ERROR_GPU_IS_LOST
    sensors = GpuSensors()
    sensors.read([ONE, "GPU-1a"])
    assert told(sensors) == {}
    assert told(sensors, "GPU-1a")["power_watts"] == 71.501


def test_who_begins_a_reading_does_not_wait_and_one_that_hangs_is_not_believed(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    sensors = GpuSensors()
    sensors.read([ONE])
    assert told(sensors)
    released = threading.Event()
    monkeypatch.setattr(nvml, "nvmlDeviceGetPcieThroughput", lambda *_: released.wait(60))
    reading = sensors.begin([ONE])
    assert reading is not None
    assert reading.is_alive()
    assert sensors.begin([ONE]) is reading  # one at a time
    assert told(sensors) == {}
    released.set()
    reading.join(60)
    assert told(sensors)["power_watts"] == 71.5


def test_where_there_is_nothing_to_read_no_thread_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    sensors = GpuSensors()
    assert sensors.begin([]) is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    first = sensors.begin([ONE])
    assert first is not None
    first.join(60)
    assert sensors.begin([ONE]) is None
    gpu = GpuInfo(id=ONE, index=0, name="L4", memory_bytes=0, memory_used_bytes=0, utilization=0.0)
    assert sensors.completed([gpu]) == [gpu]


def test_without_a_driver_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(driver=False))
    sensors = GpuSensors()
    sensors.read([ONE])
    gpu = GpuInfo(id=ONE, index=0, name="L4", memory_bytes=0, memory_used_bytes=0, utilization=0.0)
    assert sensors.completed([gpu]) == [gpu]
