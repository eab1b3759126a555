"""Tests of placements: which ones are accepted, and the errors for the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_dtf.backend.task.fit.pipeline import layer_devices
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.placement import Placement
from jupyter_dtf.schema.strategy import Pipeline

from .placed import device


def layer(weights: int = 1) -> Any:
    return SimpleNamespace(weights=[object()] * weights)


LAYERS = {"a": layer(), "block/b": layer(), "block/flat": layer(0), "c": layer()}


def read(devices: dict[str, str], **splits: list[str]) -> layer_devices.Places:
    return layer_devices.read(Placement(devices=devices, splits=splits))


def test_containers_place_what_is_in_them_and_nearer_names_win() -> None:
    found = read({"a": "/job:worker/task:0", "block": device(1), "block/b": "/job:chief/task:0/cpu:0", "c": device(0)})
    layer_devices.check_layers(found, LAYERS)
    assert found.of("a") == [device(0)]
    assert found.of("block/flat") == [device(1)]
    assert found.of("block/b") == ["/job:chief/task:0/device:CPU:0"]
    assert found.of("elsewhere") == []


def test_layers_of_a_model_rebuilt_elsewhere_keep_the_names_of_the_placement() -> None:
    found = read({"a": device(0), "block": device(1), "c": device(2)}).renamed(
        ["a_4", "block_1/b_2", "block_1/flat", "c"], list(LAYERS)
    )
    assert [found.of(layer) for layer in ("a_4", "block_1/b_2", "block_1", "c")] == [
        [device(0)], [device(1)], [device(1)], [device(2)]
    ]  # fmt: skip
    assert found.name("block_1/flat") == "block/flat"


def test_copies_are_further_tasks_by_rank() -> None:
    tasks = ["chief:0", "worker:0", "worker:1", "worker:2"]
    copies = read({"a": "/job:chief/task:0"}, c=["/job:chief/task:0", device(0)]).copies(tasks, 2)
    assert [copy.of("a") for copy in copies] == [["/job:chief/task:0/device:CPU:0"], [device(1)]]
    assert copies[1].of("c") == [device(1), device(2)]


def test_copies_of_a_run_with_fewer_tasks_are_on_those_that_are_left() -> None:
    gang = ["worker:0", "worker:1", "worker:2", "worker:3"]
    (copy,) = read({"a": device(0), "b": device(1)}).copies(["worker:1", "worker:3"], 1, gang)
    assert (copy.of("a"), copy.of("b")) == ([device(1)], [device(3)])


@pytest.mark.parametrize(
    ("devices", "splits", "said"),
    [
        ({"a": "worker one"}, {}, "device with job and task"),
        ({"a": "/job:worker"}, {}, "device with job and task"),
        ({}, {}, "an empty one"),
        ({"a": device(0)}, {"a": [device(0), device(1)]}, "without a device for the whole layer"),
        ({"c": device(0)}, {"a": [device(0)]}, "two devices or more"),
    ],
)
def test_what_is_no_placement_is_refused(devices: Any, splits: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read(devices, **splits)


@pytest.mark.parametrize(
    ("devices", "splits", "said"),
    [
        ({"a": device(0), "nine": device(0)}, {}, "must name layers of the model .*got nine"),
        ({"a": device(0)}, {}, "got no device for block/b, c"),
        ({"a": device(0), "block": device(0)}, {"c": [device(0), device(1)]}, "Dense or Embedding, got c"),
    ],
)
def test_a_placement_of_another_model_is_refused(devices: Any, splits: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        layer_devices.check_layers(read(devices, **splits), LAYERS)


def test_devices_are_those_of_the_first_copy() -> None:
    tasks = [f"worker:{index}" for index in range(4)]
    layer_devices.check_tasks(read({"a": device(1)}), tasks, 2)
    with pytest.raises(InvalidInput, match=r"first of 2 copies \(worker:0, worker:1\), got .*task:2"):
        layer_devices.check_tasks(read({"a": device(2)}), tasks, 2)
    with pytest.raises(InvalidInput, match=r"divide the number of tasks \(4\), got 3"):
        layer_devices.check_tasks(read({"a": device(0)}), tasks, 3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((3,), "`placement` must be a Placement"),
        (({"a": 3},), "must map layers to device strings"),
        (({"a": device(0)}, 0), "`microbatches` must be an integer"),
        (({"a": device(0)}, 8, 0), "`replicas` must be an integer"),
    ],
)
def test_a_strategy_says_what_it_takes(arguments: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Pipeline(*arguments)
