"""The time that automatic placement and predictions take, for a chain of 1,000 layers and a graph of 10,000."""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from jupyter_dtf.backend.planning.costs import costs
from jupyter_dtf.backend.planning.place_layers import place
from jupyter_dtf.backend.planning.prediction import predict
from jupyter_dtf.backend.planning.stages import cut
from jupyter_dtf.schema.graph import Edge, Layer, LayerGraph
from jupyter_dtf.schema.placement import Device, Link, Placement

from .table import Row

ROUNDS = 3
SIZES: Any = {"batch_size": 64, "microbatches": 8}


def _graph(length: int, skips: int = 0) -> LayerGraph:
    """Return a chain of unequal layers, with ``skips`` additional edges that skip some of them."""
    rng = random.Random(0)
    layers = [
        Layer(id=f"l{index}", kind="Dense", flops=rng.randrange(10**8), activation_bytes=rng.randrange(10**4))
        for index in range(length)
    ]
    edges = [
        Edge(source=before.id, target=after.id, bytes=rng.randrange(1, 10**5))
        for before, after in itertools.pairwise(layers)
    ]
    edges += [
        Edge(source=f"l{source}", target=f"l{source + rng.randrange(2, 10)}", bytes=10**4)
        for source in rng.sample(range(length - 10), skips)
    ]
    return LayerGraph(model="m", layers=layers, edges=edges)


def _devices(speeds: list[float]) -> list[Device]:
    return [Device(name=f"/job:worker/task:{index}/device:CPU:0", flops_per_s=s) for index, s in enumerate(speeds)]


def _seconds(function: Callable[[], Any]) -> float:
    found = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        function()
        found.append(time.perf_counter() - begin)
    return statistics.median(found)


def _over_equal_parts(graph: LayerGraph, devices: list[Device]) -> float:
    """Return the predicted step time with equally many layers per device, as a multiple of that with ``place``."""
    by_hand = {layer.id: devices[number * len(devices) // len(graph.layers)].name
               for number, layer in enumerate(graph.layers)}  # fmt: skip
    placed = predict(graph, place(graph, devices, **SIZES), devices, **SIZES).step_seconds
    return predict(graph, Placement(devices=by_hand), devices, **SIZES).step_seconds / placed


def measure() -> list[Row]:
    chain, graph = _graph(1_000), _graph(10_000, skips=3_000)
    equal, unequal = _devices([1e10] * 8), _devices([1e10 * (1 + index / 10) for index in range(8)])
    rows = []
    for what, layers, devices, target in (
        ("a chain of 1,000 layers on 8 equal devices", chain, equal, 1),
        ("a chain of 1,000 layers on 8 devices that all differ", chain, unequal, 1),
        ("a graph of 10,000 layers on 8 equal devices", graph, equal, 10),
        ("a graph of 10,000 layers on 8 devices that all differ", graph, unequal, 10),
    ):
        seconds = _seconds(lambda layers=layers, devices=devices: place(layers, devices, **SIZES))  # type: ignore[misc]
        rows.append(Row(f"placing {what}", f"{seconds:.2f} s", "", seconds, "<=", target))
    gain = _over_equal_parts(chain, unequal)
    rows.append(Row("a step with equal parts on 8 unequal devices, over the placed one", "", "", gain, ">=", 1.1))
    found = cut(costs(chain, **SIZES), unequal, Link(), {}, {})
    assert found is not None
    slowest = max(stage.seconds for stage in found.stages)
    ideal = sum(layer.flops for layer in chain.layers) * 3 * 8 / sum(device.flops_per_s for device in unequal)
    rows.append(Row("slowest placed stage, over the mean of the devices", "", "", slowest / ideal, "<=", 1.05))
    rng = random.Random(1)
    anywhere = Placement(devices={layer.id: rng.choice(equal).name for layer in graph.layers})
    staged = place(graph, equal, **SIZES)
    for what, placement, target in (("in stages", staged, 1), ("at random", anywhere, 3)):
        seconds = _seconds(lambda placement=placement: predict(graph, placement, equal, **SIZES))  # type: ignore[misc]
        rows.append(Row(f"predicting 10,000 layers placed {what}", f"{seconds:.2f} s", "", seconds, "<=", target))
    return rows
