"""The calibration computed from the profiles of all tasks of a profiling run."""

from __future__ import annotations

import pytest

from jupyter_dtf.backend.planning.calibration import calibration
from jupyter_dtf.schema.placement import Device, Link
from jupyter_dtf.schema.profile import TaskProfile


def profile(index: int, flops_per_s: float, seconds: float, **fields: object) -> TaskProfile:
    return TaskProfile(
        devices=[Device(name=f"d{index}", flops_per_s=flops_per_s)],
        layer_seconds={"a": [seconds, 2 * seconds, 0.0]},
        step_s=seconds,
        **fields,  # type: ignore[arg-type]
    )


def test_devices_that_are_as_good_as_equal_are_equal_and_others_do_not_count_for_layers() -> None:
    found = calibration([profile(0, 1.0e9, 1.0), profile(1, 1.1e9, 3.0), profile(2, 5e9, 0.1)], batch_size=4)
    assert [device.flops_per_s for device in found.devices] == [1.05e9, 1.05e9, 5e9]
    assert found.layer_seconds == {"a": pytest.approx([2.0, 4.0, 0.0])}
    assert found.overhead_s == pytest.approx(2.0)
    assert found.batch_size == 4


def test_latency_and_bandwidth() -> None:
    """One of the three measurements was disturbed."""
    transfers = [[0, 1e-3], [10**6, 3e-3], [0, 1e-3], [10**6, 3e-3], [0, 5e-2], [10**6, 9e-2]]
    found = calibration([profile(0, 1e9, 1.0, transfers=transfers, all_tasks_s=0.25)], batch_size=1)
    assert (found.link.bytes_per_s, found.link.latency_s) == pytest.approx((5e8, 1e-3))
    assert found.overhead_s == pytest.approx(1.25)


def test_a_single_task_has_no_links() -> None:
    assert calibration([profile(0, 1e9, 1.0)], batch_size=1).link == Link()
