"""The layers of a graph on the devices of a placement: parts, segments, what crosses. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..schema.placement import Cut, Device, Link, Placement
from .costs import Costs
from .schedule import Segment


@dataclass(frozen=True, order=True)
class Part:
    """A layer on a device, or the part of its columns that is there."""

    layer: int
    device: int
    fraction: float


class Spread:
    """The layers of a graph as they are spread over the devices."""

    def __init__(self, every: Costs, placement: Placement, devices: Sequence[Device]) -> None:
        self.costs = every
        self.devices = devices
        numbers = {device.name: number for number, device in enumerate(devices)}
        self.parts: list[Part] = []
        self.of_layer: list[list[Part]] = []
        largest = _largest_source(every)
        for index, layer in enumerate(every.layers):
            names = _devices_of(layer.id, placement)
            there = dict.fromkeys(numbers[device] for device in names if device in numbers)
            parts = [Part(index, device, 1 / len(there)) for device in there]
            if not parts and not layer.parameters and index in largest:
                parts = [Part(index, part.device, 1.0) for part in self.of_layer[largest[index]][:1]]
            self.of_layer.append(parts)
            self.parts += parts
        self.used = sorted({part.device for part in self.parts})
        self._crossing = self._crossings()

    def on(self, device: int) -> list[Part]:
        return [part for part in self.parts if part.device == device]

    def update_s(self, device: int) -> float:
        work = sum(self.costs.update[part.layer] * part.fraction for part in self.on(device))
        return float(work / self.devices[device].flops_per_s)

    def exchange_s(self, device: int, replicas: int, link: Link) -> float:
        """For the mean of the replicas' gradients: the first gathers them one after the other, and gives it back."""
        if replicas == 1:
            return 0.0
        layers = self.costs.layers
        size = sum(layers[part.layer].gradient_bytes * part.fraction for part in self.on(device))
        return 2 * ((replicas - 1) * size / link.bytes_per_s + link.latency_s)

    def segments(self) -> list[Segment]:
        """Parts of one device run together if on the longest way to them as many parts send something."""
        senders = {(layer, device) for layer, device, _ in self._crossing}
        sent: dict[tuple[int, int], int] = {}
        sources: list[list[int]] = [[] for _ in self.costs.layers]
        for source, target, _ in self.costs.edges.tolist():
            sources[target].append(source)
        numbers: dict[tuple[int, int], int] = {}
        segments: list[Segment] = []
        at: dict[tuple[int, int], int] = {}
        forward, backward = self.costs.forward.tolist(), self.costs.backward.tolist()
        for part in self.parts:  # each layer's come after those it needs
            level = 0
            for source in sources[part.layer]:
                for other in self.of_layer[source]:
                    level = max(level, sent[source, other.device] + ((source, other.device) in senders))
            sent[part.layer, part.device] = level
            number = numbers.setdefault((part.device, level), len(segments))
            if number == len(segments):
                segments.append(Segment(part.device))
            at[part.layer, part.device] = number
            rate = self.devices[part.device].flops_per_s
            segments[number].forward_s += forward[part.layer] * part.fraction / rate
            segments[number].backward_s += backward[part.layer] * part.fraction / rate
        self._connect(segments, at)
        return segments

    def _connect(self, segments: list[Segment], at: Mapping[tuple[int, int], int]) -> None:
        """Say what the segments send. What a device needs twice of a part goes to the first segment that needs it."""
        sent: set[tuple[int, int, int]] = set()
        pairs = sorted(
            (at[target, there.device], source, here, target, there, size)
            for source, target, size in self.costs.edges.tolist()
            for here in self.of_layer[source]
            for there in self.of_layer[target]
            if at[source, here.device] != at[target, there.device]
        )
        for number, source, here, _, there, size in pairs:
            own = segments[at[source, here.device]].sends
            own.setdefault(number, 0.0)
            key = (source, here.device, there.device)
            if here.device != there.device and key not in sent:
                sent.add(key)
                own[number] += size * here.fraction * self.costs.examples

    def _crossings(self) -> dict[tuple[int, int, int], float]:
        """Bytes of an example by (source layer, its device, another device that needs it)."""
        crossing: dict[tuple[int, int, int], float] = {}
        for source, target, size in self.costs.edges.tolist():
            for here in self.of_layer[source]:
                for there in self.of_layer[target]:
                    if here.device != there.device:
                        key = (source, here.device, there.device)
                        crossing[key] = max(crossing.get(key, 0.0), size * here.fraction)
        return crossing

    def traffic(self) -> tuple[list[float], list[float]]:
        """Bytes of an example that each device gives away and takes in a forward pass."""
        given, taken = [0.0] * len(self.devices), [0.0] * len(self.devices)
        for (_, source, target), size in self._crossing.items():
            given[source] += size
            taken[target] += size
        return given, taken

    def cuts(self) -> list[Cut]:
        names = self.costs.names
        return [
            Cut(
                source=names[source],
                target=names[target],
                source_device=self.devices[here.device].name,
                target_device=self.devices[there.device].name,
                bytes=round(size * here.fraction * self.costs.examples),
            )
            for source, target, size in self.costs.edges.tolist()
            for here in self.of_layer[source]
            for there in self.of_layer[target]
            if here.device != there.device
        ]


def _devices_of(layer: str, placement: Placement) -> list[str]:
    """The device of a layer, or of a container that is placed as a whole, or those that its columns are on."""
    path = layer
    while path:
        if path in placement.splits:
            return placement.splits[path]
        if path in placement.devices:
            return [placement.devices[path]]
        path = path.rpartition("/")[0]
    return []


def _largest_source(every: Costs) -> dict[int, int]:
    """Of each layer that needs others, the one that it takes most of."""
    largest: dict[int, tuple[int, int]] = {}
    for source, target, size in every.edges.tolist():
        if target not in largest or size > largest[target][1]:
            largest[target] = (source, size)
    return {target: source for target, (source, _) in largest.items()}
