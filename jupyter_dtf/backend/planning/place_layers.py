"""Automatic placement: assigns a model's layers to devices to minimize the predicted step time. Pure.

The layers are sorted topologically and cut into stages (``stages.py``), once with transfers counted as work and once
without. Other candidates are the simple placements of ``baseline_placements.py`` and the existing placement. The
candidate with the shortest predicted step wins, and its layers are moved until no move shortens the step
(``placement_search.py``). Layers larger than any device are split; pinned layers stay where they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ...errors import InvalidInput
from ...schema.graph import LayerGraph
from ...schema.placement import SPLITTABLE, Calibration, Device, Link, Placement
from ...schema.sizes import bytes_
from .baseline_placements import simple_ways
from .costs import Costs, check_places, costs, measured
from .placed_layers import largest_source
from .placement_search import Judge
from .stages import ways
from .unused_devices import MOST_LAYERS, ways_with

_FREE = Link(bytes_per_s=1e30, latency_s=0.0)
_FULL = 1
"""``memory_bytes`` of a device without free memory: 0 would mean no limit."""


def place(
    graph: LayerGraph,
    devices: Sequence[Device],
    *,
    batch_size: int = 32,
    microbatches: int = 1,
    replicas: int = 1,
    link: Link | None = None,
    pinned: Mapping[str, str] | None = None,
    splits: Mapping[str, Sequence[str]] | None = None,
    calibration: Calibration | None = None,
    current: Placement | None = None,
    beside: Sequence[Device] = (),
) -> Placement:
    """Place the layers on some of the devices. Layers in ``pinned`` and ``splits`` keep their devices.

    ``link`` defaults to the calibration's, if there is one. ``current`` is an existing placement, kept unless a faster
    one is found. ``beside`` are other devices that ``current`` or ``pinned`` use; no stages are cut for them. With
    ``replicas``, the devices are those of the first replica. Raises InvalidInput for an unknown layer or device, for a
    cycle in the graph, or if nothing fits.
    """
    pinned, splits = dict(pinned or {}), dict(splits or {})
    fixed = {layer: list(parts) for layer, parts in splits.items()}
    _check(graph, [*devices, *beside], pinned, splits)
    every = costs(graph, batch_size // replicas, microbatches, calibration)
    devices, beside = measured(devices, calibration), measured(beside, calibration)
    link = link or (calibration.link if calibration is not None else Link())
    judge = Judge(every, [*devices, *beside], link, replicas)
    too_large = _too_large(every, devices, pinned, splits)
    best: Placement | None = None
    for count in range(2, len(devices) + 1) if too_large else [0]:
        parted = {**fixed, **_parted(every, too_large, devices, count)}
        if (found := _best_way(judge, devices, beside, pinned, parted)) is not None:
            best = Placement(devices=found, splits=parted, pinned=[*pinned, *splits])
            break
    drawn = _as_drawn(current, every, pinned, splits) if current is not None else None
    if drawn is not None:
        step = judge.step(drawn.devices, drawn.splits)
        if math.isfinite(step) and (best is None or step < judge.step(best.devices, best.splits)):
            best = drawn
    if best is None:
        raise _does_not_fit(every, devices, pinned, splits, too_large)
    moved = _improved(judge, [*devices, *beside], best.devices, best.splits, pinned)
    return msgspec.structs.replace(best, devices=moved)


def _best_way(
    judge: Judge,
    devices: Sequence[Device],
    beside: Sequence[Device],
    pinned: Mapping[str, str],
    parted: Mapping[str, Sequence[str]],
) -> dict[str, str] | None:
    """Return the devices of the layers that are not split, in the fastest candidate. None if the layers do not fit."""
    rest = judge.costs.without(set(parted))
    staged = list(_ways(judge.costs, devices, beside, link=judge.link, pinned=pinned, parted=parted))
    found = [*staged, *simple_ways(rest, devices, pinned)] if rest.layers else staged
    best = min(found, key=lambda way: judge.step(way, parted), default=None)
    fits = best is not None and math.isfinite(judge.step(best, parted))
    return best if fits or staged else None


def _improved(
    judge: Judge,
    devices: Sequence[Device],
    where: Mapping[str, str],
    parted: Mapping[str, Sequence[str]],
    pinned: Mapping[str, str],
) -> dict[str, str]:
    """Move layers until neither a move nor the use of an idle device shortens the step."""
    rest = judge.costs.without(set(parted))
    best = judge.improved(where, parted, pinned)
    while rest.layers and len(judge.costs.layers) <= MOST_LAYERS:
        used = {*best.values(), *(device for there in parted.values() for device in there)}
        idle = [device for device in devices if device.name not in used]
        others = [way for device in idle for way in ways_with(device, rest, devices, used, pinned)]
        other = min(others, key=lambda way: judge.step(way, parted), default=best)
        if not judge.step(other, parted) < judge.step(best, parted):
            break
        best = judge.improved(other, parted, pinned)
    return best


def _as_drawn(
    current: Placement, every: Costs, pinned: Mapping[str, str], splits: Mapping[str, Sequence[str]]
) -> Placement | None:
    """Return the existing placement, if it places every layer and moves no pinned one; otherwise None."""
    where: dict[str, str] = {}
    parted: dict[str, list[str]] = {}
    largest = largest_source(every)
    for index, layer in enumerate(every.layers):
        there = current.devices_of(layer.id)
        if not there and not layer.parameters and index in largest:  # as in a prediction: on its largest input's device
            source = every.names[largest[index]]
            there = parted[source][:1] if source in parted else [where[source]]
        if not there:
            return None
        if len(there) > 1:
            parted[layer.id] = list(there)
        else:
            where[layer.id] = there[0]
    is_kept = all(where.get(layer) == device for layer, device in pinned.items()) and all(
        parted.get(layer) == list(there) for layer, there in splits.items()
    )
    return Placement(devices=where, splits=parted, pinned=[*pinned, *splits]) if is_kept else None


def _ways(
    every: Costs,
    devices: Sequence[Device],
    beside: Sequence[Device],
    *,
    link: Link,
    pinned: Mapping[str, str],
    parted: Mapping[str, Sequence[str]],
) -> Iterator[dict[str, str]]:
    """Yield candidate devices for the layers that are not split: stages with the pinned layers, and without them.

    Transfers are counted first as work and then as free, because they may overlap with computation.
    """
    aside = {**parted, **{layer: [device] for layer, device in pinned.items()}}
    for each in (link, _FREE):
        yield from _staged(every, devices, beside, link=each, aside=parted, pinned=pinned)
        if pinned:
            for found in _staged(every, devices, beside, link=each, aside=aside, pinned={}):
                yield {**found, **pinned}


def _staged(
    every: Costs,
    devices: Sequence[Device],
    beside: Sequence[Device],
    *,
    link: Link,
    aside: Mapping[str, Sequence[str]],
    pinned: Mapping[str, str],
) -> list[dict[str, str]]:
    """Return candidates for the devices of all layers except those ``aside``.

    The memory and the time of the layers ``aside`` are divided evenly among their devices.
    """
    memory = {device.name: 0.0 for device in [*devices, *beside]}
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
            return []
        room = max(int(room), _FULL) if device.memory_bytes else 0
        left.append(msgspec.structs.replace(device, memory_bytes=room))
    rest = every.without(set(aside))
    if not rest.layers:
        return [{}]
    busy = {device.name: work[device.name] / device.flops_per_s for device in devices if device.name in work}
    found = ways(rest, left, link, pinned, busy)
    return [{name: stage.device for stage in way.stages for name in stage.layers} for way in found]


def _too_large(
    every: Costs, devices: Sequence[Device], pinned: Mapping[str, str], splits: Mapping[str, Sequence[str]]
) -> list[int]:
    """Return the indices of the layers that do not fit on any device but can be split."""
    if any(not device.memory_bytes for device in devices):
        return []
    most = max(device.memory_bytes for device in devices)
    return [
        index
        for index, layer in enumerate(every.layers)
        if every.memory[index] > most and layer.kind in SPLITTABLE and layer.id not in {*pinned, *splits}
    ]


def _parted(every: Costs, layers: Sequence[int], devices: Sequence[Device], count: int) -> dict[str, list[str]]:
    """Split each of the layers over the devices with the most free memory, in the order of ``devices``."""
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
                    f"Each layer must fit on one device, or be an unpinned {' or '.join(SPLITTABLE)}, which can be "
                    f"split, got {layer.id} ({layer.kind}) of {bytes_(every.memory[index])} for {there}",
                    field="devices",
                )
    return InvalidInput(
        f"The layers must fit on the devices in order, without moving pinned layers, got "
        f"{bytes_(every.memory.sum())} of layers for {there}, with {len(pinned) + len(splits)} layers pinned",
        field="devices",
    )


def _check(
    graph: LayerGraph, devices: Sequence[Device], pinned: Mapping[str, str], splits: Mapping[str, Sequence[str]]
) -> None:
    if not graph.layers or not devices:
        raise InvalidInput(
            f"There must be at least one layer and one device, got {len(graph.layers)} layers, {len(devices)} devices"
        )
    names = [device.name for device in devices]
    if len(set(names)) < len(names):
        raise InvalidInput(f"`devices` must be different devices, got {', '.join(names)}", field="devices")
    layers = {layer.id for layer in graph.layers}
    check_places(layers, devices, {layer: [device] for layer, device in pinned.items()}, "pinned")
    check_places(layers, devices, splits, "splits")
    if both := sorted(set(pinned) & set(splits)):
        raise InvalidInput(f"A layer must be either pinned or split, got both for {both[0]!r}", field="splits")
