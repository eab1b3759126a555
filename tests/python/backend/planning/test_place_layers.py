"""Automatic placement: pinned layers, splits, memory, refusals. The stages themselves are in ``test_stages.py``."""

from __future__ import annotations

import itertools
import random

import pytest

from jupyter_dtf.backend.planning.place_layers import place
from jupyter_dtf.backend.planning.prediction import predict
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.graph import Edge, Layer, LayerGraph
from jupyter_dtf.schema.placement import Calibration, Device, Link, Placement

from .test_stages import chain

MIB = 2**20


def graph_of(*layers: Layer) -> LayerGraph:
    edges = [Edge(source=before.id, target=after.id, bytes=4) for before, after in itertools.pairwise(layers)]
    return LayerGraph(model="m", layers=list(layers), edges=edges)


def layer(name: str, size_mib: int = 0, kind: str = "Dense") -> Layer:
    return Layer(id=name, kind=kind, flops=10**8, parameter_bytes=size_mib * MIB)


def devices(*memory_mib: int) -> list[Device]:
    return [
        Device(name=f"d{index}", flops_per_s=1e10, memory_bytes=memory * MIB) for index, memory in enumerate(memory_mib)
    ]


def test_a_chain_is_halved() -> None:
    graph = graph_of(*map(layer, "abcd"))
    assert place(graph, devices(0, 0), microbatches=8) == Placement(
        devices={"a": "d0", "b": "d0", "c": "d1", "d": "d1"}
    )


def test_what_is_pinned_stays_where_it_is() -> None:
    graph = graph_of(*map(layer, "abcd"))
    placed = place(graph, devices(0, 0), microbatches=8, pinned={"b": "d1"})
    assert placed.devices["b"] == "d1" and placed.pinned == ["b"]
    halves = Placement(devices={"a": "d1", "b": "d1", "c": "d0", "d": "d0"})
    steps = [predict(graph, each, devices(0, 0), microbatches=8).step_seconds for each in (placed, halves)]
    assert steps[0] <= steps[1]


def test_the_first_and_the_last_layer_pinned_to_one_device() -> None:
    """No contiguous stages allow this, so the pinned layers are set aside and count as work of their device."""
    graph = graph_of(*map(layer, "abcdef"))
    placed = place(graph, devices(0, 0), batch_size=512, microbatches=32, pinned={"a": "d0", "f": "d0"})
    assert [placed.devices[name] for name in "af"] == ["d0", "d0"]
    assert sorted(placed.devices[name] for name in "bcde") == ["d0", "d1", "d1", "d1"]
    assert placed.pinned == ["a", "f"]


def test_a_layer_too_large_for_any_device_is_split_over_as_few_as_it_takes() -> None:
    graph = graph_of(layer("words", 100, "Embedding"), layer("a", 5), layer("b", 5))
    placed = place(graph, devices(40, 60, 55), microbatches=8)
    assert placed.splits == {"words": ["d1", "d2"]}
    assert placed.devices == {"a": "d0", "b": "d0"} or set(placed.devices) == {"a", "b"}
    assert place(graph, devices(40, 39, 35), microbatches=8).splits == {"words": ["d0", "d1", "d2"]}


def test_what_is_split_already_stays_so() -> None:
    graph = graph_of(layer("words", 10, "Embedding"), layer("a", 5))
    placed = place(graph, devices(12, 12), splits={"words": ["d1", "d0"]})
    assert placed.splits == {"words": ["d1", "d0"]} and placed.pinned == ["words"]
    assert set(placed.devices) == {"a"}


@pytest.mark.parametrize(
    ("graph", "memory", "message"),
    [
        (
            graph_of(layer("a"), layer("big", 100, "LSTM")),
            (50, 60),
            "big (LSTM) of 100 MiB for d0 50.0 MiB, d1 60.0 MiB",
        ),
        (
            graph_of(layer("a", 50), layer("b", 50)),
            (60, 40),
            "100 MiB of layers for d0 60.0 MiB, d1 40.0 MiB, with 0 layers",
        ),
        (graph_of(layer("big", 200)), (50, 60), "got 200 MiB of layers for d0 50.0 MiB, d1 60.0 MiB"),
    ],
)
def test_what_does_not_fit_is_named(graph: LayerGraph, memory: tuple[int, ...], message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        place(graph, devices(*memory), microbatches=8)
    assert message in str(refused.value)


def test_a_calibration_decides_over_flops() -> None:
    graph = graph_of(*map(layer, "abcd"))
    slow = Calibration(
        batch_size=4,
        devices=[Device(name="d0", flops_per_s=1e10), Device(name="d1", flops_per_s=1e10)],
        link=Link(),
        layer_seconds={name: [seconds, seconds, 0.0] for name, seconds in zip("abcd", (3, 1, 1, 1), strict=True)},
    )
    placed = place(graph, devices(0, 0), microbatches=8, calibration=slow)
    assert placed.devices == {"a": "d0", "b": "d1", "c": "d1", "d": "d1"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"microbatches": 0}, "`microbatches` must be from 1 to batch_size, 32, got 0"),
        ({"microbatches": 33}, "batch_size, 32, got 33"),
        ({"pinned": {"x": "d0"}}, "The keys of `pinned` must be layers of the model, got 'x'"),
        ({"pinned": {"l0": "x"}}, "The devices in `pinned` must be among d0, got 'x'"),
        ({"splits": {"l0": ["d0", "x"]}}, "The devices in `splits` must be among d0, got 'x'"),
        (
            {"pinned": {"l0": "d0"}, "splits": {"l0": ["d0"]}},
            "A layer must be either pinned or split, got both for 'l0'",
        ),
    ],
)
def test_what_cannot_be_placed_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        place(chain(random.Random(0), 2), devices(0), **arguments)  # type: ignore[arg-type]
    assert message in str(refused.value)


def test_devices_are_there_once() -> None:
    with pytest.raises(InvalidInput, match="`devices` must be different devices, got d0, d0"):
        place(graph_of(layer("a")), [*devices(0), *devices(0)])
