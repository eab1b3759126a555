"""*Place automatically* offers nothing predicted to be slower than known placements, and explains unused devices."""

from __future__ import annotations

import random
from typing import Any

import pytest

from jupyter_dtf.backend.planning.baseline_placements import simple_ways
from jupyter_dtf.backend.planning.costs import costs
from jupyter_dtf.backend.planning.place_layers import place
from jupyter_dtf.backend.planning.prediction import predict
from jupyter_dtf.backend.planning.unused_devices import why_unused
from jupyter_dtf.schema.graph import Edge, Layer, LayerGraph
from jupyter_dtf.schema.placement import Device, Link, Placement

ALIKE = 1 + 1e-9


def cpu(index: int) -> str:
    return f"/job:worker/task:{index}/device:CPU:0"


def random_case(rng: random.Random) -> tuple[LayerGraph, list[Device], dict[str, Any]]:
    count = rng.randrange(1, 14)
    layers = [
        Layer(
            id=f"l{index}",
            kind="Dense",
            flops=rng.randrange(1, 10 ** rng.randrange(3, 8)),
            parameters=rng.randrange(2),
            parameter_bytes=rng.randrange(10**6),
            gradient_bytes=rng.choice([0, rng.randrange(10**6)]),
            activation_bytes=rng.randrange(10**4),
        )
        for index in range(count)
    ]
    edges = [
        Edge(source=f"l{source}", target=f"l{target}", bytes=rng.randrange(1, 10 ** rng.randrange(1, 5)))
        for target in range(1, count)
        for source in rng.sample(range(target), min(target, rng.choice([1, 1, 1, 2])))
    ]
    devices = [
        Device(
            name=cpu(index) if rng.random() < 0.7 else f"d{index}",
            flops_per_s=rng.choice([1e9, 1e10, 3e10]),
            memory_bytes=rng.choice([0, 0, 50 * 10**6]),
        )
        for index in range(rng.randrange(1, 5))
    ]
    link = Link(bytes_per_s=rng.choice([1e8, 1e9, 1e10]), latency_s=rng.choice([1e-6, 2e-4, 1e-3]))
    sizes = {"batch_size": 32, "microbatches": rng.choice([1, 4, 8]), "link": link}
    return LayerGraph(model="m", layers=layers, edges=edges), devices, sizes


def by_hand(rng: random.Random, graph: LayerGraph, devices: list[Device]) -> Placement:
    """Return a placement that a user might make: stages in some order, or random devices."""
    names = [layer.id for layer in graph.layers]
    if rng.random() < 0.3:
        return Placement(devices={name: rng.choice(devices).name for name in names})
    order = rng.sample(devices, rng.randrange(1, len(devices) + 1))
    cuts = sorted(rng.randrange(len(names) + 1) for _ in order[1:])
    return Placement(devices={name: order[sum(cut <= index for cut in cuts)].name for index, name in enumerate(names)})


@pytest.mark.parametrize("seed", range(60))
def test_never_worse_than_any_that_is_known(seed: int) -> None:
    rng = random.Random(seed)
    graph, devices, sizes = random_case(rng)

    def step(placement: Placement) -> float:
        found = predict(graph, placement, devices, **sizes)
        return found.step_seconds if not found.problems else float("inf")

    own = by_hand(rng, graph, devices)
    offered = place(graph, devices, **sizes, current=own)
    assert set(offered.devices) == {layer.id for layer in graph.layers}
    every = costs(graph, sizes["batch_size"], sizes["microbatches"])
    known = [own, *(Placement(devices=way) for way in simple_ways(every, devices, {}))]
    assert {device.name for device in devices} <= {name for way in known for name in way.devices.values()}
    assert step(offered) <= min(map(step, known)) * ALIKE
    # Another offer is no worse, and pinned layers stay.
    assert step(place(graph, devices, **sizes, current=offered)) <= step(offered) * ALIKE
    pinned = dict(rng.sample(sorted(offered.devices.items()), 1))
    kept = place(graph, devices, **sizes, pinned=pinned, current=offered)
    assert pinned.items() <= kept.devices.items() and step(kept) <= step(offered) * ALIKE


@pytest.mark.parametrize("seed", range(40))
def test_a_device_without_layers_would_not_help(seed: int) -> None:
    graph, devices, sizes = random_case(random.Random(seed))
    offered = place(graph, devices, **sizes)
    reasons = why_unused(graph, offered, devices, **sizes)
    assert set(reasons) == {device.name for device in devices} - set(offered.devices.values())
    helpful = [reason for reason in reasons.values() if reason.startswith("a step") and "alone" not in reason]
    assert not helpful


def two_layers(bytes_: int = 4, flops: int = 10**6) -> LayerGraph:
    layers = [Layer(id=name, kind="Dense", flops=flops, parameters=1) for name in "ab"]
    return LayerGraph(model="m", layers=layers, edges=[Edge(source="a", target="b", bytes=bytes_)])


DEVICES = [Device(name=cpu(index), flops_per_s=1e10) for index in range(2)]
ALONE = Placement(devices=dict.fromkeys("ab", cpu(0)))


@pytest.mark.parametrize(
    ("graph", "sizes", "reason"),
    [
        (two_layers(bytes_=10**6), {"microbatches": 8}, "copying to it costs more than it saves: a step would take "),
        (two_layers(), {"microbatches": 1}, "with one microbatch, devices take turns: a step would take 1"),
        (two_layers(flops=10**8), {"microbatches": 8}, "a step would take "),
    ],
)
def test_why_a_device_has_nothing(graph: LayerGraph, sizes: dict[str, Any], reason: str) -> None:
    found = why_unused(graph, ALONE, DEVICES, batch_size=32, **sizes)
    assert list(found) == [cpu(1)]
    assert found[cpu(1)].startswith(reason) and found[cpu(1)].endswith(" without")


def test_a_device_that_is_too_slow() -> None:
    slow = [DEVICES[0], Device(name=cpu(1), flops_per_s=1e5)]
    found = why_unused(two_layers(), ALONE, slow, batch_size=32, microbatches=8)
    assert found[cpu(1)] == "a step would take 32m 00s on it alone, 19.2 ms without"


def test_a_device_that_others_would_wait_for() -> None:
    layers = [Layer(id=name, kind="Dense", flops=10**6, parameters=1) for name in "abc"]
    edges = [Edge(source="a", target="b", bytes=4), Edge(source="b", target="c", bytes=4)]
    uneven = [DEVICES[0], Device(name=cpu(1), flops_per_s=4e9)]
    everything = Placement(devices=dict.fromkeys("abc", cpu(0)))
    graph = LayerGraph(model="m", layers=layers, edges=edges)
    found = why_unused(graph, everything, uneven, batch_size=32, microbatches=2)
    assert found[cpu(1)].startswith("other devices would wait for it: a step would take "), found


def test_a_device_in_place_of_which_another_is_used() -> None:
    graph = two_layers()
    one = LayerGraph(model="m", layers=graph.layers[:1], edges=[])
    found = why_unused(one, Placement(devices={"a": cpu(0)}), DEVICES, batch_size=32, microbatches=8)
    assert found == {cpu(1): "a step would take 9.6 ms on it alone, 9.6 ms without"}


def test_a_device_for_which_no_layer_is_left() -> None:
    one = LayerGraph(model="m", layers=[Layer(id="a", kind="Dense", flops=1, parameter_bytes=100)], edges=[])
    small = [Device(name=cpu(0), flops_per_s=1e9), Device(name=cpu(1), flops_per_s=1e9, memory_bytes=10)]
    found = why_unused(one, Placement(devices={"a": cpu(0)}), small, batch_size=8, microbatches=2)
    assert found == {cpu(1): "no remaining layer fits on it"}


def test_nothing_is_said_of_an_unfinished_placement() -> None:
    assert not why_unused(two_layers(), Placement(devices={"a": cpu(0)}), DEVICES, batch_size=32, microbatches=8)


def test_branches_go_to_devices_of_their_own() -> None:
    """Cutting the layers' order into contiguous stages cannot separate the branches."""
    ids = ["start", *(f"{side}{number}" for number in range(4) for side in "ab"), "end"]
    layers = [Layer(id=name, kind="Dense", flops=10**7, parameters=1) for name in ids]
    edges = [Edge(source="start", target=f"{side}0", bytes=4) for side in "ab"]
    edges += [Edge(source=f"{s}{n}", target=f"{s}{n + 1}", bytes=4) for s in "ab" for n in range(3)]
    edges += [Edge(source=f"{side}3", target="end", bytes=4) for side in "ab"]
    graph = LayerGraph(model="m", layers=layers, edges=edges)
    sizes: dict[str, Any] = {"batch_size": 32, "microbatches": 1}
    offered = place(graph, DEVICES, **sizes)
    apart = {name: cpu(int(name[0] == "b")) for name in ids}
    step = predict(graph, offered, DEVICES, **sizes).step_seconds
    assert step <= predict(graph, Placement(devices=apart), DEVICES, **sizes).step_seconds * ALIKE
