"""Automatic placement: a model's layers cut into stages, one for each device. Pure.

The layers are laid out in an order in which each comes after those it needs, and cut into contiguous stages so that the
slowest one is as fast as it can be, within memory. For a chain of layers no placement with contiguous stages has a
faster slowest stage; a graph is laid out first, which is where better ones may be missed. Of the best placements with
one, two and more stages, the one with the shortest step is taken.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput
from ..schema.graph import LayerGraph
from ..schema.placement import Device, Link, Placement

_PASSES = 3
"""Forward, and a backward pass that computes twice as much."""
_MOST_CUTS = 1_200
"""Between how many places of a long graph the stages may be cut."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Stage:
    """What one device does in a step."""

    device: str
    layers: list[str]
    seconds: float
    """For one microbatch, forward and backward, with what it sends and receives."""
    memory_bytes: int
    """Weights, gradients, slots, and the activations of all microbatches of a step."""
    sent_bytes: int
    """By the forward pass of one microbatch."""


@dataclass(frozen=True)
class Stages:
    """Stages in the order in which an example goes through them."""

    stages: list[Stage]
    step_seconds: float
    """Expected: the first microbatch goes through all stages, the others follow at the pace of the slowest."""


def place(
    graph: LayerGraph,
    devices: Sequence[Device],
    *,
    batch_size: int = 32,
    microbatches: int = 1,
    link: Link | None = None,
    pinned: Mapping[str, str] | None = None,
) -> Placement:
    """Place the layers on some of the devices. ``pinned`` maps layers to devices that are settled.

    Raises InvalidInput if a layer or a device is not known, if the graph has a cycle, or if nothing fits.
    """
    found = cut(graph, devices, batch_size=batch_size, microbatches=microbatches, link=link, pinned=pinned)
    placed = {layer: stage.device for stage in found.stages for layer in stage.layers}
    return Placement(devices=placed, pinned=list(pinned or {}))


def cut(
    graph: LayerGraph,
    devices: Sequence[Device],
    *,
    batch_size: int = 32,
    microbatches: int = 1,
    link: Link | None = None,
    pinned: Mapping[str, str] | None = None,
) -> Stages:
    """Cut the graph into stages, one for each device that is used. Raises as ``place`` does."""
    link, pinned = link or Link(), dict(pinned or {})
    _check(graph, devices, batch_size, microbatches, pinned)
    costs = _Costs(graph, batch_size, microbatches, link)
    kinds = _kinds(devices, pinned)
    best: Stages | None = None
    for bounds, chosen in _cuts(costs, kinds, pinned):
        stages = [
            costs.stage(first, last, device)
            for (first, last), device in zip(bounds, _named(chosen, kinds), strict=True)
        ]
        seconds = [stage.seconds for stage in stages]
        step = sum(seconds) + (microbatches - 1) * max(seconds)
        if best is None or step < best.step_seconds:
            best = Stages(stages, step)
    if best is None:
        needed = costs.memory[-1] / 2**20
        there = ", ".join(f"{device.name} {device.memory_bytes / 2**20:.0f} MiB" for device in devices)
        raise InvalidInput(
            f"The layers fit into the devices in their order, each where it is pinned. Received: {needed:.0f} MiB for "
            f"{there}, {len(pinned)} layers pinned",
            field="devices",
        )
    return best


@dataclass(frozen=True)
class _Kind:
    """Devices that are as good as each other."""

    devices: tuple[Device, ...]
    is_pinned_to: bool


class _Costs:
    """What any stage of the graph would cost, by the places between layers where it begins and ends."""

    def __init__(self, graph: LayerGraph, batch_size: int, microbatches: int, link: Link) -> None:
        self.order = ordered(graph)
        self._examples = batch_size / microbatches
        self._link = link
        layers = {layer.id: layer for layer in graph.layers}
        ordered_layers = [layers[name] for name in self.order]
        self.flops = _sums([layer.flops * _PASSES * self._examples for layer in ordered_layers])
        self.memory = _sums(
            [
                layer.parameter_bytes + layer.gradient_bytes + layer.slot_bytes + layer.activation_bytes * batch_size
                for layer in ordered_layers
            ]
        )
        position = {name: index for index, name in enumerate(self.order)}
        ends = [(position[edge.source], position[edge.target], edge.bytes) for edge in graph.edges]
        self._ends = np.array(ends, np.int64).reshape(-1, 3)
        self.cuts = self._places(len(self.order))
        self._incoming, self._outgoing = self._traffic()
        self._seconds: dict[tuple[float, int], Floats] = {}

    def seconds(self, device: Device) -> Floats:
        """Of a stage from cut i to cut j on the device, at [i, j]; infinite where it does not fit."""
        key = (device.flops_per_s, device.memory_bytes)
        if key not in self._seconds:
            self._seconds[key] = self._of_stages(device)
        return self._seconds[key]

    def _of_stages(self, device: Device) -> Floats:
        at = self.cuts
        seconds: Floats = (self.flops[at][None, :] - self.flops[at][:, None]) / device.flops_per_s
        for bytes_ in (self._incoming, self._outgoing):  # there in the forward pass, back in the backward pass
            seconds += 2 * (bytes_ * self._examples / self._link.bytes_per_s + self._link.latency_s * (bytes_ > 0))
        if device.memory_bytes:
            memory = self.memory[at][None, :] - self.memory[at][:, None]
            seconds[memory > device.memory_bytes] = np.inf
        seconds[np.tril_indices(len(at))] = np.inf  # a stage has a layer at least
        return seconds

    def stage(self, first: int, last: int, device: Device) -> Stage:
        """The stage from cut ``first`` to cut ``last``."""
        begin, end = self.cuts[first], self.cuts[last]
        return Stage(
            device=device.name,
            layers=self.order[begin:end],
            seconds=float(self.seconds(device)[first, last]),
            memory_bytes=int(self.memory[end] - self.memory[begin]),
            sent_bytes=int(self._outgoing[first, last] * self._examples),
        )

    def _places(self, length: int) -> npt.NDArray[np.int64]:
        """Where stages may be cut: everywhere, or in a long graph where least is sent, one place in each stretch."""
        if length < _MOST_CUTS:
            return np.arange(length + 1)
        crossing = np.zeros(length + 1)
        np.add.at(crossing, self._ends[:, 0] + 1, self._ends[:, 2])
        np.add.at(crossing, self._ends[:, 1] + 1, -self._ends[:, 2])
        crossing = np.cumsum(crossing)
        work = self.flops / max(self.flops[-1], 1) + np.arange(length + 1) / length
        stretch = np.minimum((work / work[-1] * (_MOST_CUTS - 2)).astype(int), _MOST_CUTS - 3)
        order = np.lexsort((crossing, stretch))
        order = order[(order > 0) & (order < length)]
        firsts = np.unique(stretch[order], return_index=True)[1]
        return np.concatenate([[0], np.sort(order[firsts]), [length]])

    def _traffic(self) -> tuple[Floats, Floats]:
        """Bytes that a stage from cut i to cut j takes from before it and gives to what is after it, at [i, j]."""
        size = len(self.cuts)
        where = np.searchsorted(self.cuts, self._ends[:, :2], side="right")
        traffic = np.zeros((size, size))
        np.add.at(traffic, (where[:, 0], where[:, 1]), self._ends[:, 2])
        until = np.cumsum(np.cumsum(traffic, 0), 1)  # from before cut i to before cut j
        own = np.diag(until)[:, None]
        incoming = until - own
        outgoing = until[:, -1][None, :] - until[:, -1][:, None] - np.diag(until)[None, :] + until
        return incoming, outgoing


def _cuts(
    costs: _Costs, kinds: Sequence[_Kind], pinned: Mapping[str, str]
) -> list[tuple[list[tuple[int, int]], list[int]]]:
    """For each number of stages the fastest way to cut: (first, last) of each stage, and its kind of device.

    By dynamic programming over how many devices of each kind are in use: for every place, the time of the slowest stage
    before it.
    """
    tables = [_allowed(costs, kind, pinned) for kind in kinds]
    none = (0,) * len(kinds)
    slowest: dict[tuple[int, ...], Floats] = {none: np.full(len(costs.cuts), np.inf)}
    slowest[none][0] = 0.0
    before: dict[tuple[int, ...], tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = {}
    by_size: list[list[tuple[int, ...]]] = [[none]]
    for _ in range(sum(len(kind.devices) for kind in kinds)):
        grown: dict[tuple[int, ...], None] = {}
        for used in by_size[-1]:
            for number, kind in enumerate(kinds):
                if used[number] == len(kind.devices):
                    continue
                more = (*used[:number], used[number] + 1, *used[number + 1 :])
                worst = np.maximum(slowest[used][:, None], tables[number])
                start = np.argmin(worst, 0)
                reached = worst[start, np.arange(len(start))]
                if more not in slowest:
                    slowest[more] = np.full(len(start), np.inf)
                    before[more] = (np.zeros(len(start), np.int64), np.zeros(len(start), np.int64))
                better = reached < slowest[more]
                slowest[more][better] = reached[better]
                before[more][0][better] = start[better]
                before[more][1][better] = number
                grown[more] = None
        by_size.append(list(grown))
    found = []
    for states in by_size[1:]:
        best = min(states, key=lambda used: slowest[used][-1])
        if np.isfinite(slowest[best][-1]):
            found.append(_way_back(best, before))
    return found


def _way_back(
    used: tuple[int, ...], before: Mapping[tuple[int, ...], tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]
) -> tuple[list[tuple[int, int]], list[int]]:
    bounds, chosen = [], []
    at = -1
    while any(used):
        starts, numbers = before[used]
        at = at % len(starts)
        number = int(numbers[at])
        bounds.append((int(starts[at]), at))
        chosen.append(number)
        at = int(starts[at])
        used = (*used[:number], used[number] - 1, *used[number + 1 :])
    return bounds[::-1], chosen[::-1]


def _allowed(costs: _Costs, kind: _Kind, pinned: Mapping[str, str]) -> Floats:
    """The seconds of each stage on a device of the kind; infinite if it holds a layer that is pinned elsewhere."""
    seconds: Floats = costs.seconds(kind.devices[0]).copy()
    own = kind.devices[0].name if kind.is_pinned_to else None
    elsewhere = _sums([float(name in pinned and pinned[name] != own) for name in costs.order])[costs.cuts]
    seconds[elsewhere[None, :] - elsewhere[:, None] > 0] = np.inf
    return seconds


def _kinds(devices: Sequence[Device], pinned: Mapping[str, str]) -> list[_Kind]:
    wanted = set(pinned.values())
    alike: dict[tuple[float, int, str], list[Device]] = {}
    for device in devices:
        own = device.name if device.name in wanted else ""
        alike.setdefault((device.flops_per_s, device.memory_bytes, own), []).append(device)
    return [_Kind(tuple(same), bool(own)) for (_, _, own), same in alike.items()]


def _named(chosen: Sequence[int], kinds: Sequence[_Kind]) -> list[Device]:
    """The devices of the stages, those of one kind in the order in which they were given."""
    left = [iter(kind.devices) for kind in kinds]
    return [next(left[number]) for number in chosen]


def ordered(graph: LayerGraph) -> list[str]:
    """The layers, each after those it needs, otherwise as the graph has them. Raises InvalidInput for a cycle."""
    position = {layer.id: index for index, layer in enumerate(graph.layers)}
    needs = dict.fromkeys(position, 0)
    followers: dict[str, list[str]] = {name: [] for name in position}
    for edge in graph.edges:
        needs[edge.target] += 1
        followers[edge.source].append(edge.target)
    ready = [position[name] for name, count in needs.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        name = graph.layers[heapq.heappop(ready)].id
        order.append(name)
        for follower in followers[name]:
            needs[follower] -= 1
            if not needs[follower]:
                heapq.heappush(ready, position[follower])
    if len(order) < len(position):
        around = sorted(set(position) - set(order), key=position.__getitem__)
        raise InvalidInput(f"A layer does not need itself, by whatever way. Received: {', '.join(around[:5])}")
    return order


def _check(
    graph: LayerGraph, devices: Sequence[Device], batch_size: int, microbatches: int, pinned: Mapping[str, str]
) -> None:
    if not graph.layers or not devices:
        raise InvalidInput(
            f"Layers are placed on devices, one of each at least. Received: {len(graph.layers)} layers, "
            f"{len(devices)} devices"
        )
    if not 1 <= microbatches <= batch_size:
        raise InvalidInput(
            f"microbatches is from 1 to batch_size. Received: {microbatches} of {batch_size}", field="microbatches"
        )
    names = [device.name for device in devices]
    if len(set(names)) < len(names):
        raise InvalidInput(f"Each device is there once. Received: {', '.join(names)}", field="devices")
    for layer, device in pinned.items():
        if layer not in {known.id for known in graph.layers}:
            raise InvalidInput(f"pinned maps layers of the model. Received: {layer!r}", field="pinned")
        if device not in names:
            raise InvalidInput(f"pinned maps to one of {', '.join(names)}. Received: {device!r}", field="pinned")


def _sums(values: Sequence[float]) -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.asarray(values, float))])
