"""Automatic placement: a model's layers on devices, one contiguous stage each. Pure.

The layers are laid out in an order in which each comes after those it needs, and cut into stages (``stages.py``). For a
chain of layers no contiguous stages, as many as are used, have a faster slowest one; a graph is laid out first, which
is where better ones may be missed. Layers that are larger than any device are split; layers that a person has placed
stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ..errors import InvalidInput
from ..schema.graph import LayerGraph
from ..schema.placement import Calibration, Device, Link, Placement
from ..schema.sizes import bytes_
from .costs import SPLITTABLE, Costs, check_places, costs, measured
from .prediction import predict
from .stages import cut

_FULL = 1
"""``memory_bytes`` of a device that has no room left: 0 would be as much as is wanted."""


def place(
    graph: LayerGraph,
    devices: Sequence[Device],
    *,
    batch_size: int = 32,
    microbatches: int = 1,
    link: Link | None = None,
    pinned: Mapping[str, str] | None = None,
    splits: Mapping[str, Sequence[str]] | None = None,
    calibration: Calibration | None = None,
) -> Placement:
    """Place the layers on some of the devices. What ``pinned`` and ``splits`` say of some layers is left as it is.

    ``link``: by default the calibration's, if there is one. Raises InvalidInput if a layer or a device is not known,
    if the graph has a cycle, or if nothing fits.
    """
    pinned, splits = dict(pinned or {}), dict(splits or {})
    fixed = {layer: list(parts) for layer, parts in splits.items()}
    _check(graph, devices, pinned, splits)
    every = costs(graph, batch_size, microbatches, calibration)
    devices = measured(devices, calibration)
    link = link or (calibration.link if calibration is not None else Link())
    too_large = _too_large(every, devices, pinned, splits)
    for count in range(2, len(devices) + 1) if too_large else [0]:
        parted = {**fixed, **_parted(every, too_large, devices, count)}
        found = [
            Placement(devices=where, splits=parted, pinned=[*pinned, *splits])
            for where in _ways(every, devices, link, pinned, parted)
        ]
        if found:
            sizes = {"batch_size": batch_size, "microbatches": microbatches}
            steps = [predict(graph, way, devices, **sizes, link=link, calibration=calibration) for way in found]
            return found[min(range(len(found)), key=lambda number: steps[number].step_seconds)]
    raise _does_not_fit(every, devices, pinned, splits, too_large)


def _ways(
    every: Costs, devices: Sequence[Device], link: Link, pinned: Mapping[str, str], parted: Mapping[str, Sequence[str]]
) -> Iterator[dict[str, str]]:
    """The devices of the layers that are not parted: in stages with the pinned ones, and with those set aside."""
    if (found := _staged(every, devices, link, parted, pinned)) is not None:
        yield found
    aside = {**parted, **{layer: [device] for layer, device in pinned.items()}}
    if pinned and (found := _staged(every, devices, link, aside, {})) is not None:
        yield {**found, **pinned}


def _staged(
    every: Costs,
    devices: Sequence[Device],
    link: Link,
    aside: Mapping[str, Sequence[str]],
    pinned: Mapping[str, str],
) -> dict[str, str] | None:
    """The device of each layer but those ``aside``, which take memory and time on their devices, in equal parts."""
    memory = {device.name: 0.0 for device in devices}
    work: dict[str, float] = {}
    per_microbatch = every.per_microbatch
    for index, name in enumerate(every.names):
        for there in aside.get(name, ()):
            memory[there] += every.memory[index] / len(aside[name])
            work[there] = work.get(there, 0.0) + per_microbatch[index] / len(aside[name])
    left = []
    for device in devices:
        room = device.memory_bytes - memory[device.name]
        if device.memory_bytes and room < 0:
            return None
        room = max(int(room), _FULL) if device.memory_bytes else 0
        left.append(msgspec.structs.replace(device, memory_bytes=room))
    rest = every.without(set(aside))
    if not rest.layers:
        return {}
    busy = {device.name: work[device.name] / device.flops_per_s for device in devices if device.name in work}
    stages = cut(rest, left, link, pinned, busy)
    return None if stages is None else {name: stage.device for stage in stages.stages for name in stage.layers}


def _too_large(
    every: Costs, devices: Sequence[Device], pinned: Mapping[str, str], splits: Mapping[str, Sequence[str]]
) -> list[int]:
    """Positions of the layers that fit into none of the devices and can be split."""
    if any(not device.memory_bytes for device in devices):
        return []
    most = max(device.memory_bytes for device in devices)
    return [
        index
        for index, layer in enumerate(every.layers)
        if every.memory[index] > most and layer.kind in SPLITTABLE and layer.id not in {*pinned, *splits}
    ]


def _parted(every: Costs, layers: Sequence[int], devices: Sequence[Device], count: int) -> dict[str, list[str]]:
    """Each of the layers over so many devices, those with most room, in the order in which the devices are given."""
    room = {device.name: float(device.memory_bytes) for device in devices}
    parted = {}
    for index in layers:
        chosen = set(sorted(room, key=lambda name: -room[name])[:count])
        parted[every.layers[index].id] = [name for name in room if name in chosen]
        for name in chosen:
            room[name] -= every.memory[index] / count
    return parted


def _does_not_fit(
    every: Costs,
    devices: Sequence[Device],
    pinned: Mapping[str, str],
    splits: Mapping[str, Sequence[str]],
    too_large: Sequence[int],
) -> InvalidInput:
    there = ", ".join(f"{device.name} {bytes_(device.memory_bytes)}" for device in devices)
    limits = [device.memory_bytes for device in devices]
    if all(limits):
        for index, layer in enumerate(every.layers):
            if every.memory[index] > max(limits) and index not in too_large and layer.id not in splits:
                return InvalidInput(
                    f"Each layer fits into a device, or is split if it is a {' or '.join(SPLITTABLE)} that is not "
                    f"pinned. Received: {layer.id} ({layer.kind}) of {bytes_(every.memory[index])} for {there}",
                    field="devices",
                )
    return InvalidInput(
        f"The layers fit into the devices in their order, each where it is pinned. Received: "
        f"{bytes_(every.memory.sum())} for {there}, {len(pinned) + len(splits)} layers pinned",
        field="devices",
    )


def _check(
    graph: LayerGraph, devices: Sequence[Device], pinned: Mapping[str, str], splits: Mapping[str, Sequence[str]]
) -> None:
    if not graph.layers or not devices:
        raise InvalidInput(
            f"Layers are placed on devices, one of each at least. Received: {len(graph.layers)} layers, "
            f"{len(devices)} devices"
        )
    names = [device.name for device in devices]
    if len(set(names)) < len(names):
        raise InvalidInput(f"Each device is there once. Received: {', '.join(names)}", field="devices")
    layers = {layer.id for layer in graph.layers}
    check_places(layers, devices, {layer: [device] for layer, device in pinned.items()}, "pinned")
    check_places(layers, devices, splits, "splits")
    if both := sorted(set(pinned) & set(splits)):
        raise InvalidInput(f"A layer is pinned to a device or split. Received both: {both[0]}", field="splits")
