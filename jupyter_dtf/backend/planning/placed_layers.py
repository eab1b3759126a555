"""The layers of a graph on the devices of a placement: parts, segments, transfers. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ...schema.placement import Cut, Device, Link, Placement
from .costs import Costs
from .schedule import Segment, levels

_CPU = re.compile(r"/device:CPU:\d+\Z")
"""Matches devices whose own cores copy the data that they send and receive. A GPU can compute during a copy."""
OF_INPUTS = 0.5
"""The fraction of a layer's backward pass that computes the gradients of its inputs, as opposed to its weights."""


class Part(NamedTuple):
    """A layer on a device, some columns of a split layer on a device, or the joining of such columns on a device."""

    layer: int
    device: int
    fraction: float
    """The part's fraction of the layer's work and memory; 0 for the joining of columns."""


class _Flow(NamedTuple):
    """An output of one part that another part needs. ``bytes`` are per example."""

    source: Part
    target: Part
    bytes: float

    @property
    def crosses(self) -> bool:
        return self.source.device != self.target.device

    @property
    def message(self) -> tuple[Part, int]:
        """The key of the message. An output is sent to a device only once, even if several parts there need it."""
        return self.source, self.target.device


class Spread:
    """The layers of a graph, distributed over devices as a placement specifies."""

    def __init__(self, every: Costs, placement: Placement, devices: Sequence[Device]) -> None:
        self.costs = every
        self.devices = devices
        numbers = {device.name: number for number, device in enumerate(devices)}
        self.parts: list[Part] = []
        self.of_layer: list[list[Part]] = []
        self._whole: list[Part | None] = []
        """For each layer, the part that has its whole output. For a split layer, this is a part on its first device."""
        largest = largest_source(every)
        for index, layer in enumerate(every.layers):
            names = placement.devices_of(layer.id)
            there = list(dict.fromkeys(numbers[device] for device in names if device in numbers))
            if not there and not layer.parameters and index in largest and (before := self._whole[largest[index]]):
                there = [before.device]
            parts = [Part(index, device, 1 / len(there)) for device in there]
            self.of_layer.append(parts)
            self.parts += parts
            self._whole.append(parts[0] if len(parts) == 1 else Part(index, there[0], 0.0) if parts else None)
        self._computes_copies = [_CPU.search(device.name) is not None for device in devices]
        self.used = sorted({part.device for part in self.parts})
        self._flows = self._all_flows()

    def on(self, device: int) -> list[Part]:
        return [part for part in self.parts if part.device == device]

    def update_s(self, device: int) -> float:
        work = sum(self.costs.update[part.layer] * part.fraction for part in self.on(device))
        return float(work / self.devices[device].flops_per_s)

    def exchanged(self, device: int) -> tuple[float, float]:
        """Return the bytes of weights that a replica reads from the first replica, and of gradients that it returns."""
        layers = [(self.costs.layers[part.layer], part.fraction) for part in self.on(device)]
        return (
            sum(layer.parameter_bytes * fraction for layer, fraction in layers),
            sum(layer.gradient_bytes * fraction for layer, fraction in layers),
        )

    def exchange_s(self, device: int, replicas: int, link: Link) -> float:
        """Return the seconds per step in which the other replicas, one by one, read weights and return gradients."""
        if replicas == 1:
            return 0.0
        return (replicas - 1) * sum(self.exchanged(device)) / link.bytes_per_s + 2 * link.latency_s

    def segments(self, copying_s: float = 0.0) -> list[Segment]:
        """Return the segments: parts of one device are merged if the longest paths to them have equally many transfers.

        ``copying_s``: CPU seconds per byte that is sent to or received from another device.
        """
        return self._segments(copying_s)[0]

    def held(self) -> dict[Part, int]:
        """Return how many microbatches' activations each part holds at the same time (one forward, one backward)."""
        segments, at = self._segments(0.0)
        known = levels(segments)
        return {part: known.held(at[part], self.costs.microbatches) for part in self.parts}

    def _segments(self, copying_s: float) -> tuple[list[Segment], dict[Part, int]]:
        """Return the segments, and the index of each part's segment."""
        senders = {flow.source for flow in self._flows if flow.crosses}
        sources: dict[Part, list[Part]] = {}
        for flow in self._flows:
            sources.setdefault(flow.target, []).append(flow.source)
        sent: dict[Part, int] = {}
        numbers: dict[tuple[int, int], int] = {}
        segments: list[Segment] = []
        at: dict[Part, int] = {}
        forward, backward = self.costs.forward.tolist(), self.costs.backward.tolist()
        for part in self._in_order():
            level = max((sent[source] + (source in senders) for source in sources.get(part, ())), default=0)
            sent[part] = level
            number = at[part] = numbers.setdefault((part.device, level), len(segments))
            if number == len(segments):
                segments.append(Segment(part.device))
            rate = self.devices[part.device].flops_per_s
            segments[number].forward_s += forward[part.layer] * part.fraction / rate
            back = backward[part.layer] * part.fraction / rate
            segments[number].backward_s += back
            segments[number].inputs_s += back * (OF_INPUTS if self.costs.layers[part.layer].gradient_bytes else 1)
        messages = set()
        for flow in sorted(self._flows, key=lambda flow: (at[flow.target], flow.source)):
            source, target = at[flow.source], at[flow.target]
            if source != target:
                sends = segments[source].sends
                sends.setdefault(target, 0.0)
                if flow.crosses and flow.message not in messages:  # sent to the first segment there that needs it
                    messages.add(flow.message)
                    size = flow.bytes * self.costs.examples
                    sends[target] += size
                    for each in (segments[source], segments[target]):
                        if self._computes_copies[each.device]:
                            each.forward_s += size * copying_s
                            each.backward_s += size * copying_s
                            each.inputs_s += size * copying_s
        return segments, at

    def traffic(self) -> tuple[list[float], list[float]]:
        """Return the bytes per example that each device sends and receives in a forward pass."""
        messages: dict[tuple[Part, int], float] = {}
        for flow in self._flows:
            if flow.crosses:
                messages[flow.message] = max(messages.get(flow.message, 0.0), flow.bytes)
        given, taken = [0.0] * len(self.devices), [0.0] * len(self.devices)
        for (source, target), size in messages.items():
            given[source.device] += size
            taken[target] += size
        return given, taken

    def cuts(self) -> list[Cut]:
        """Return the edges between devices, including those between the parts of a split layer."""
        names = self.costs.names
        return [
            Cut(
                source=names[flow.source.layer],
                target=names[flow.target.layer],
                source_device=self.devices[flow.source.device].name,
                target_device=self.devices[flow.target.device].name,
                bytes=round(flow.bytes * self.costs.examples),
            )
            for flow in self._flows
            if flow.crosses
        ]

    def _in_order(self) -> list[Part]:
        """Return all parts in topological order."""
        found = []
        for parts, whole in zip(self.of_layer, self._whole, strict=True):
            found += parts if whole is None or whole in parts else [*parts, whole]
        return found

    def _all_flows(self) -> list[_Flow]:
        largest: dict[int, int] = {}
        found = []
        for source, target, size in self.costs.edges.tolist():
            largest[source] = max(size, largest.get(source, 0))
            if (whole := self._whole[source]) is not None:
                found += [_Flow(whole, part, size) for part in self.of_layer[target]]
        for parts, whole in zip(self.of_layer, self._whole, strict=True):
            if whole is not None and whole not in parts:
                found += [_Flow(part, whole, largest.get(part.layer, 0) * part.fraction) for part in parts]
        return found


def largest_source(every: Costs) -> dict[int, int]:
    """Map each layer with inputs to the layer that produces its largest input, both given by their indices."""
    largest: dict[int, tuple[int, int]] = {}
    for source, target, size in every.edges.tolist():
        if target not in largest or size > largest[target][1]:
            largest[target] = (source, size)
    return {target: source for target, (source, _) in largest.items()}
