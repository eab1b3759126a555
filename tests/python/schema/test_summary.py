"""Tests of placements and predictions as text for users."""

from __future__ import annotations

import pytest

from jupyter_dtf.schema.api import Problem
from jupyter_dtf.schema.placement import DeviceLoad, Placement, Prediction, Slot


def test_a_placement_by_device(capsys: pytest.CaptureFixture[str]) -> None:
    devices = {"a": "d1", "b": "d0"} | {f"c{index}": "d1" for index in range(8)}
    placement = Placement(devices=devices, splits={"words": ["d0", "d1"]})
    assert repr(placement) == "d0: b, words (1 of 2)\nd1: a, c0, c1, c2, c3, c4, ... (10 layers)"
    placement.show()
    assert capsys.readouterr().out.splitlines()[1].endswith("c6, c7, words (2 of 2)")
    assert repr(Placement()) == "Placement(): no layer has a device"


def test_a_prediction_with_its_timeline(capsys: pytest.CaptureFixture[str]) -> None:
    prediction = Prediction(
        step_seconds=0.0125,
        bubble=0.25,
        batch_size=64,
        microbatches=2,
        devices=[
            DeviceLoad(device="d0", memory_bytes=3 << 20, memory_limit_bytes=2 << 20, share=0.5, busy_s=0.01, layers=3),
            DeviceLoad(device="d1", memory_bytes=1 << 20, share=0.5, busy_s=0.01, sent_bytes=1 << 19, layers=12),
        ],
        timeline=[
            Slot(device="d0", microbatch=0, phase="forward", start_s=0.0, duration_s=1.0),
            Slot(device="d0", microbatch=11, phase="backward", start_s=2.0, duration_s=1.0),
            Slot(device="d1", microbatch=1, phase="update", start_s=1.0, duration_s=2.0),
        ],
        problems=[Problem(field="placement.devices", message="d0: needs more")],
    )
    assert repr(prediction).splitlines() == [
        "A step of 64 examples in 2 microbatches: 12.5 ms, bubble 25%, not calibrated",
        "device  layers  work  busy   memory              sent",
        "d0      3       50%   10 ms  3.0 MiB of 2.0 MiB  0 B",
        "d1      12      50%   10 ms  1.0 MiB             512 KiB",
        "d0: needs more",
    ]
    prediction.show()
    assert capsys.readouterr().out.splitlines()[5:] == [
        f"d0 {'0' * 24}{'.' * 24}{'b' * 24}",
        f"d1 {'.' * 24}{'=' * 48}",
    ]


def test_a_prediction_of_nothing() -> None:
    empty = Prediction(step_seconds=0.0, bubble=0.0, batch_size=1, microbatches=1, calibrated=True)
    empty.show()
    assert repr(empty).startswith("A step of 1 examples in 1 microbatches: 0 s, bubble 0%\ndevice")
