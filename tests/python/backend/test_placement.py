"""Automatic placement, against every placement there is."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from jupyter_dtf.backend.placement import cut, ordered, place
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.graph import Edge, Layer, LayerGraph
from jupyter_dtf.schema.placement import Device, Link, Placement

LINK = Link(bytes_per_s=1e8, latency_s=1e-3)


def chain(rng: random.Random, length: int) -> LayerGraph:
    layers = [
        Layer(
            id=f"l{index}",
            kind="Dense",
            flops=rng.randrange(1, 10**8),
            parameter_bytes=rng.randrange(10**6),
            activation_bytes=rng.randrange(10**4),
        )
        for index in range(length)
    ]
    edges = [
        Edge(source=f"l{index}", target=f"l{index + 1}", bytes=rng.randrange(1, 10**5)) for index in range(length - 1)
    ]
    return LayerGraph(model="chain", layers=layers, edges=edges)


def seconds_of(graph: LayerGraph, first: int, last: int, device: Device, examples: float) -> float:
    """A stage of a chain, from the definition."""
    seconds = sum(layer.flops for layer in graph.layers[first:last]) * 3 * examples / device.flops_per_s
    for end in (first, last):
        if 0 < end < len(graph.layers):
            seconds += 2 * (graph.edges[end - 1].bytes * examples / LINK.bytes_per_s + LINK.latency_s)
    return seconds


def memory_of(graph: LayerGraph, first: int, last: int, batch_size: int) -> int:
    return sum(layer.parameter_bytes + layer.activation_bytes * batch_size for layer in graph.layers[first:last])


@pytest.mark.parametrize("seed", range(60))
def test_the_slowest_stage_of_a_chain_is_as_fast_as_can_be(seed: int) -> None:
    rng = random.Random(seed)
    graph = chain(rng, rng.randrange(2, 9))
    names = [layer.id for layer in graph.layers]
    devices = [
        Device(
            name=f"d{number}",
            flops_per_s=rng.choice([1e10, 2e10]),
            memory_bytes=rng.choice([0, rng.randrange(10**6, 4 * 10**6)]),
        )
        for number in range(rng.randrange(1, 4))
    ]
    pinned = {rng.choice(names): rng.choice(devices).name} if rng.random() < 0.4 else {}
    microbatches = rng.choice([1, 4])
    best: dict[int, float] = {}
    for count in range(1, len(devices) + 1):
        for inner in itertools.combinations(range(1, len(names)), count - 1):
            bounds = list(itertools.pairwise([0, *inner, len(names)]))
            for chosen in itertools.permutations(devices, count):
                stages = list(zip(bounds, chosen, strict=True))
                if any(
                    pinned.get(name, device.name) != device.name
                    for (first, last), device in stages
                    for name in names[first:last]
                ):
                    continue
                if any(
                    device.memory_bytes and memory_of(graph, *bound, 32) > device.memory_bytes
                    for bound, device in stages
                ):
                    continue
                slowest = max(seconds_of(graph, *bound, device, 32 / microbatches) for bound, device in stages)
                best[count] = min(best.get(count, math.inf), slowest)
    if not best:
        with pytest.raises(InvalidInput, match="The layers fit into the devices"):
            place(graph, devices, microbatches=microbatches, link=LINK, pinned=pinned)
        return
    placed = cut(graph, devices, microbatches=microbatches, link=LINK, pinned=pinned)
    assert [name for stage in placed.stages for name in stage.layers] == names
    assert max(stage.seconds for stage in placed.stages) == pytest.approx(best[len(placed.stages)])
    where = {name: stage.device for stage in placed.stages for name in stage.layers}
    assert all(where[name] == device for name, device in pinned.items())
    found = place(graph, devices, microbatches=microbatches, link=LINK, pinned=pinned)
    assert found == Placement(devices=where, pinned=list(pinned))
    assert placed.step_seconds == pytest.approx(
        sum(stage.seconds for stage in placed.stages)
        + (microbatches - 1) * max(stage.seconds for stage in placed.stages)
    )


def test_one_microbatch_gains_nothing_from_a_second_device() -> None:
    graph = chain(random.Random(0), 20)
    devices = [Device(name=name, flops_per_s=1e10) for name in "ab"]
    assert len(cut(graph, devices, link=LINK).stages) == 1
    assert len(cut(graph, devices, microbatches=8, link=LINK).stages) == 2


def test_what_is_sent_past_a_stage_counts_for_those_it_goes_between() -> None:
    layers = [Layer(id=name, kind="Dense", flops=10**9) for name in "abc"]
    edges = [Edge(source="a", target="b", bytes=8), Edge(source="b", target="c", bytes=8)]
    skip = Edge(source="a", target="c", bytes=10**6)
    devices = [Device(name=str(number), flops_per_s=1e12) for number in range(3)]
    pinned = {"a": "0", "b": "1", "c": "2"}
    without, with_skip = (
        cut(LayerGraph(model="m", layers=layers, edges=chosen), devices, link=LINK, pinned=pinned)
        for chosen in (edges, [*edges, skip])
    )
    more = [after.seconds - before.seconds for after, before in zip(with_skip.stages, without.stages, strict=True)]
    assert more == pytest.approx([2 * 32e6 / 1e8, 0.0, 2 * 32e6 / 1e8])
    assert with_skip.stages[0].sent_bytes == 32 * (10**6 + 8)


def test_layers_come_after_those_they_need() -> None:
    layers = [Layer(id=name, kind="Dense") for name in "cab"]
    edges = [Edge(source="a", target="b", bytes=1), Edge(source="b", target="c", bytes=1)]
    assert ordered(LayerGraph(model="m", layers=layers, edges=edges)) == ["a", "b", "c"]
    edges.append(Edge(source="c", target="a", bytes=1))
    with pytest.raises(InvalidInput, match="does not need itself"):
        ordered(LayerGraph(model="m", layers=layers, edges=edges))


def test_a_large_graph_is_cut_where_little_is_sent() -> None:
    rng = random.Random(1)
    length = 10_000
    graph = chain(rng, length)
    for layer in graph.layers:
        layer.flops = 10**7
    for edge in graph.edges:
        edge.bytes = 10**6
    for narrow in (2_500, 5_000, 7_500):
        graph.edges[narrow - 1].bytes = 4
    devices = [Device(name=str(number), flops_per_s=1e10) for number in range(4)]
    placed = cut(graph, devices, microbatches=8)
    assert [len(stage.layers) for stage in placed.stages] == [2_500] * 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"microbatches": 0}, "microbatches is from 1 to batch_size. Received: 0 of 32"),
        ({"microbatches": 33}, "Received: 33 of 32"),
        ({"pinned": {"x": "0"}}, "pinned maps layers of the model. Received: 'x'"),
        ({"pinned": {"l0": "x"}}, "pinned maps to one of 0. Received: 'x'"),
    ],
)
def test_what_cannot_be_placed_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        place(chain(random.Random(0), 2), [Device(name="0", flops_per_s=1.0)], **arguments)  # type: ignore[arg-type]
    assert message in str(refused.value)
