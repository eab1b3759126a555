"""Cutting a chain of layers into stages, compared with all possible cuts."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pytest

from jupyter_dtf.backend.planning.costs import costs
from jupyter_dtf.backend.planning.stages import Stages, cut
from jupyter_dtf.schema.graph import Edge, Layer, LayerGraph
from jupyter_dtf.schema.placement import Device, Link

LINK = Link(bytes_per_s=1e8, latency_s=1e-3)


def chain(rng: random.Random, length: int) -> LayerGraph:
    layers = [
        Layer(
            id=f"l{index}",
            kind="Dense",
            flops=rng.randrange(1, 10**8),
            parameter_bytes=rng.randrange(10**6),
            gradient_bytes=rng.randrange(10**6),
            activation_bytes=rng.randrange(10**4),
        )
        for index in range(length)
    ]
    edges = [
        Edge(source=f"l{index}", target=f"l{index + 1}", bytes=rng.randrange(1, 10**4)) for index in range(length - 1)
    ]
    return LayerGraph(model="chain", layers=layers, edges=edges)


def cut_graph(
    graph: LayerGraph, devices: Sequence[Device], microbatches: int = 1, pinned: dict[str, str] | None = None
) -> Stages | None:
    return cut(costs(graph, 32, microbatches), devices, LINK, pinned or {}, {})


def seconds_of(graph: LayerGraph, first: int, last: int, device: Device, microbatches: int) -> float:
    """Return the duration of a stage of a chain, computed from the definition."""
    examples = 32 / microbatches
    seconds = 0.0
    for layer in graph.layers[first:last]:
        seconds += 3 * layer.flops * examples / device.flops_per_s
        seconds += (layer.parameter_bytes + layer.gradient_bytes) / device.flops_per_s / microbatches
    for end in (first, last):
        if 0 < end < len(graph.layers):
            seconds += 2 * (graph.edges[end - 1].bytes * examples / LINK.bytes_per_s + LINK.latency_s)
    return seconds


def memory_of(graph: LayerGraph, first: int, last: int) -> int:
    received = graph.edges[first - 1].bytes if first else 0
    return received * 32 + sum(
        layer.parameter_bytes + layer.gradient_bytes + layer.activation_bytes * 32 for layer in graph.layers[first:last]
    )


@pytest.mark.parametrize("seed", range(80))
def test_the_slowest_stage_of_a_chain_is_as_fast_as_can_be(seed: int) -> None:
    rng = random.Random(seed)
    graph = chain(rng, rng.randrange(2, 9))
    names = [layer.id for layer in graph.layers]
    devices = [
        Device(
            name=f"d{number}",
            flops_per_s=rng.choice([1e10, 2e10, rng.uniform(5e9, 5e10)]),
            memory_bytes=rng.choice([0, rng.randrange(10**6, 8 * 10**6)]),
        )
        for number in range(rng.randrange(1, 5))
    ]
    pinned = {rng.choice(names): rng.choice(devices).name} if rng.random() < 0.4 else {}
    microbatches = rng.choice([1, 4, 16])
    slowest: dict[int, float] = {}
    for count in range(1, len(devices) + 1):
        for inner in itertools.combinations(range(1, len(names)), count - 1):
            bounds = list(itertools.pairwise([0, *inner, len(names)]))
            for chosen in itertools.permutations(devices, count):
                stages = list(zip(bounds, chosen, strict=True))
                if any(
                    pinned.get(name, device.name) != device.name
                    for (first, last), device in stages
                    for name in names[first:last]
                ) or any(device.memory_bytes and memory_of(graph, *at) > device.memory_bytes for at, device in stages):
                    continue
                worst = max(seconds_of(graph, *at, device, microbatches) for at, device in stages)
                slowest[count] = min(slowest.get(count, math.inf), worst)
    found = cut_graph(graph, devices, microbatches, pinned)
    if found is None:
        assert not slowest
        return
    assert [name for stage in found.stages for name in stage.layers] == names
    where = {name: stage.device for stage in found.stages for name in stage.layers}
    assert all(where[name] == device for name, device in pinned.items())
    seconds = [stage.seconds for stage in found.stages]
    by_name = {device.name: device for device in devices}
    begin = 0
    for stage in found.stages:
        end = begin + len(stage.layers)
        device = by_name[stage.device]
        assert stage.seconds == pytest.approx(seconds_of(graph, begin, end, device, microbatches))
        assert not device.memory_bytes or memory_of(graph, begin, end) <= device.memory_bytes
        begin = end
    assert max(seconds) == pytest.approx(slowest[len(found.stages)])
    assert found.step_seconds == pytest.approx(sum(seconds) + (microbatches - 1) * max(seconds))
    least = min(worst * microbatches for worst in slowest.values())  # no step is shorter than its slowest stage's part
    assert found.step_seconds >= least * (1 - 1e-9)


def test_one_microbatch_gains_nothing_from_a_second_device() -> None:
    graph = chain(random.Random(0), 20)
    devices = [Device(name=name, flops_per_s=1e10) for name in "ab"]
    for microbatches, stages in ((1, 1), (8, 2)):
        found = cut_graph(graph, devices, microbatches)
        assert found is not None and len(found.stages) == stages


def test_what_a_stage_needs_twice_is_sent_to_it_once() -> None:
    layers = [Layer(id=name, kind="Dense", flops=10**9) for name in "abc"]
    chained = [Edge(source="a", target="b", bytes=10**6), Edge(source="b", target="c", bytes=8)]
    skipping = [*chained, Edge(source="a", target="c", bytes=10**6)]
    devices = [Device(name=str(number), flops_per_s=1e12) for number in range(3)]

    def transfers(edges: list[Edge], *chosen: str) -> list[float]:
        graph = LayerGraph(model="m", layers=layers, edges=edges)
        found = cut_graph(graph, devices, 32, dict(zip("abc", chosen, strict=True)))
        assert found is not None
        return [stage.seconds - 3 * 10**9 * len(stage.layers) / 1e12 for stage in found.stages]

    large, small = 2 * (1e6 / 1e8 + 1e-3), 2 * (8 / 1e8 + 1e-3)
    both = 2 * ((1e6 + 8) / 1e8 + 1e-3)
    assert transfers(chained, "0", "1", "1") == pytest.approx([large, large])
    assert transfers(skipping, "0", "1", "1") == pytest.approx([large, large])
    assert transfers(chained, "0", "1", "2") == pytest.approx([large, large + small, small])
    assert transfers(skipping, "0", "1", "2") == pytest.approx([large, large + small, both])


def test_a_long_row_is_cut_where_little_is_sent() -> None:
    length = 10_000
    layers = [Layer(id=str(index), kind="Dense", flops=10**7) for index in range(length)]
    edges = [Edge(source=str(index), target=str(index + 1), bytes=10**6) for index in range(length - 1)]
    for narrow in (2_500, 5_000, 7_500):
        edges[narrow - 1].bytes = 4
    devices = [Device(name=str(number), flops_per_s=1e10) for number in range(4)]
    found = cut_graph(LayerGraph(model="m", layers=layers, edges=edges), devices, 8)
    assert found is not None and [len(stage.layers) for stage in found.stages] == [2_500] * 4


def test_more_kinds_of_devices_than_can_be_tried_in_every_order() -> None:
    graph = chain(random.Random(3), 60)
    devices = [Device(name=str(number), flops_per_s=1e10 * (1 + number)) for number in range(16)]
    found = cut_graph(graph, devices, 32)
    alone = cut_graph(graph, devices[-1:], 32)
    assert found is not None and alone is not None
    assert len(found.stages) > 4
    assert found.step_seconds < alone.step_seconds / 2
