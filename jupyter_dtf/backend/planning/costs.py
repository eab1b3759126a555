"""The cost of each layer of a graph: operations, seconds, bytes. Pure.

Work is counted in operations. For a layer that was not measured, these are its FLOPs; for a measured one, its seconds
times the speed (operations per second) of the device that it was measured on. The time that a layer takes on any device
is its work divided by the speed of that device.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from ...errors import InvalidInput
from ...schema.graph import Layer, LayerGraph
from ...schema.placement import Calibration, Device

BACKWARD = 2
"""The work of a backward pass relative to a forward pass: it computes the gradients of both inputs and weights."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Costs:
    """Costs of the layers in topological order. Forward and backward work is given for one microbatch."""

    layers: list[Layer]
    forward: Floats
    backward: Floats
    update: Floats
    """The work of the weight update, once per step."""
    memory: Floats
    """The bytes of each layer's weights, gradients and slots, and of its activations for all microbatches."""
    activations: Floats
    """The bytes of each layer's activations, which are part of ``memory``."""
    edges: npt.NDArray[np.int64]
    """Each edge as (position of the source, position of the target, bytes per example), sorted by source and target."""
    batch_size: int
    microbatches: int
    takes_turns: bool = False
    """Whether devices alternate forward and backward passes, and so hold the activations of only a few microbatches."""

    @property
    def examples(self) -> float:
        """The number of examples in a microbatch."""
        return self.batch_size / self.microbatches

    @property
    def names(self) -> list[str]:
        return [layer.id for layer in self.layers]

    @property
    def per_microbatch(self) -> Floats:
        """All work of each layer for one microbatch, including its share of the weight update."""
        return self.forward + self.backward + self.update / self.microbatches

    def without(self, names: Set[str]) -> Costs:
        """Return the costs without these layers and their edges."""
        if not names:
            return self
        kept = np.array([layer.id not in names for layer in self.layers], bool)
        position = np.cumsum(kept) - 1
        edges = self.edges[kept[self.edges[:, :2]].all(1)]
        return Costs(
            layers=[layer for layer in self.layers if layer.id not in names],
            forward=self.forward[kept],
            backward=self.backward[kept],
            update=self.update[kept],
            memory=self.memory[kept],
            activations=self.activations[kept],
            edges=np.column_stack([position[edges[:, :2]], edges[:, 2]]),
            batch_size=self.batch_size,
            microbatches=self.microbatches,
            takes_turns=self.takes_turns,
        )


def costs(graph: LayerGraph, batch_size: int, microbatches: int, calibration: Calibration | None = None) -> Costs:
    """Return the costs of a step of ``batch_size`` examples. Raises InvalidInput for a cycle or impossible sizes."""
    check_sizes(batch_size, microbatches)
    layers = ordered(graph)
    position = {layer.id: index for index, layer in enumerate(layers)}
    examples = batch_size / microbatches
    work = np.array([_work(layer, examples, calibration) for layer in layers], float).reshape(-1, 3)
    standing = [layer.parameter_bytes + layer.gradient_bytes + layer.slot_bytes for layer in layers]
    activations = np.array([layer.activation_bytes * batch_size for layer in layers], float)
    edges = sorted((position[edge.source], position[edge.target], edge.bytes) for edge in graph.edges)
    return Costs(
        layers=layers,
        forward=work[:, 0],
        backward=work[:, 1],
        update=work[:, 2],
        memory=np.array(standing, float) + activations,
        activations=activations,
        edges=np.array(edges, np.int64).reshape(-1, 3),
        batch_size=batch_size,
        microbatches=microbatches,
        takes_turns=graph.takes_turns,
    )


def _work(layer: Layer, examples: float, calibration: Calibration | None) -> tuple[float, float, float]:
    if calibration is not None and (seconds := calibration.layer_seconds.get(layer.id)) is not None:
        rate = calibration.devices[0].flops_per_s
        scale = examples / calibration.batch_size
        return seconds[0] * scale * rate, seconds[1] * scale * rate, seconds[2] * rate
    forward = layer.flops * examples
    touched = (layer.parameter_bytes + layer.gradient_bytes + layer.slot_bytes) if layer.gradient_bytes else 0
    return forward, forward * BACKWARD, float(touched)  # an update takes about one operation per byte


def measured(devices: Sequence[Device], calibration: Calibration | None) -> list[Device]:
    """Return the devices with their measured speeds. A device that was not measured gets the first measured speed."""
    if calibration is None:
        return list(devices)
    rates = {device.name: device.flops_per_s for device in calibration.devices}
    other = calibration.devices[0].flops_per_s
    return [msgspec.structs.replace(device, flops_per_s=rates.get(device.name, other)) for device in devices]


def check_sizes(batch_size: int, microbatches: int) -> None:
    """Raise InvalidInput unless a batch can be divided into that many microbatches."""
    if not 1 <= microbatches <= batch_size:
        raise InvalidInput(
            f"`microbatches` must be from 1 to batch_size, {batch_size}, got {microbatches}", field="microbatches"
        )


def check_places(layers: Set[str], devices: Sequence[Device], places: Mapping[str, Sequence[str]], what: str) -> None:
    """Raise InvalidInput for unknown layers or devices. ``what`` is the name of the mapping, for the message."""
    names = [device.name for device in devices]
    for layer, wanted in places.items():
        if layer not in layers:
            raise InvalidInput(f"The keys of `{what}` must be layers of the model, got {layer!r}", field=what)
        for device in wanted:
            if device not in names:
                raise InvalidInput(
                    f"The devices in `{what}` must be among {', '.join(names)}, got {device!r}", field=what
                )


def ordered(graph: LayerGraph) -> list[Layer]:
    """Return the layers in topological order; ties keep the graph's order. Raises InvalidInput for a cycle."""
    position = {layer.id: index for index, layer in enumerate(graph.layers)}
    needs = [0] * len(graph.layers)
    followers: list[list[int]] = [[] for _ in graph.layers]
    for edge in graph.edges:
        needs[position[edge.target]] += 1
        followers[position[edge.source]].append(position[edge.target])
    ready = [index for index, count in enumerate(needs) if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for follower in followers[index]:
            needs[follower] -= 1
            if not needs[follower]:
                heapq.heappush(ready, follower)
    if len(order) < len(graph.layers):
        around = sorted(set(range(len(graph.layers))) - set(order))
        names = ", ".join(graph.layers[index].id for index in around[:5])
        raise InvalidInput(f"The graph of layers must have no cycles, got one through {names}")
    return [graph.layers[index] for index in order]
