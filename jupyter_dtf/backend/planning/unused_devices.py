"""Explains why a placement leaves devices unused, by predicting how long a step with them would take. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from ...schema.graph import LayerGraph
from ...schema.placement import Calibration, Device, Link, Placement, Prediction
from ...schema.sizes import seconds_
from .baseline_placements import simple_ways
from .costs import Costs, costs, measured
from .placement_search import Judge, Where

MOST_LAYERS = 2_000
"""Graphs with more layers get no explanation, because it is computed after every change to a design."""
_FREE = Link(bytes_per_s=1e30, latency_s=0.0)


def ways_with(
    device: Device, every: Costs, devices: Sequence[Device], used: Collection[str], fixed: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    """Yield simple placements that use ``device``, alone or with ``used`` devices. ``fixed`` layers keep their devices.

    ``every`` has the costs of the layers that are not split.
    """
    there = [other for other in devices if other.name in used or other.name == device.name]
    for way in simple_ways(every, there, fixed):
        if device.name in way.values():
            yield way
    for other in there:
        if other.name != device.name:
            for way in simple_ways(every, [other, device], fixed):
                if device.name in way.values():
                    yield way


def why_unused(
    graph: LayerGraph,
    placement: Placement,
    devices: Sequence[Device],
    *,
    batch_size: int,
    microbatches: int,
    replicas: int = 1,
    link: Link | None = None,
    calibration: Calibration | None = None,
) -> dict[str, str]:
    """Return the reasons why devices have no layer in a placement, keyed by device name.

    Empty if the placement is incomplete or does not fit, or if the graph has more than ``MOST_LAYERS`` layers. With
    replicas, ``devices`` are those of the first replica.
    """
    if len(graph.layers) > MOST_LAYERS:
        return {}
    every = costs(graph, batch_size // replicas, microbatches, calibration)
    devices = measured(devices, calibration)
    link = link or (calibration.link if calibration is not None else Link())
    where = {layer: there[0] for layer in every.names if len(there := placement.devices_of(layer)) == 1}
    splits = {layer: there for layer in every.names if len(there := placement.devices_of(layer)) > 1}
    fixed = {layer: device for layer, device in where.items() if layer in placement.pinned}
    judge = Judge(every, devices, link, replicas)
    now = judge.step(where, splits)
    used = {*where.values(), *(device for there in splits.values() for device in there)}
    unused = [device for device in devices if device.name not in used]
    if not math.isfinite(now) or not unused:
        return {}
    rest = every.without(set(splits))
    free = Judge(every, devices, _FREE, replicas)
    said = {}
    for device in unused:
        ways = [way for way in ways_with(device, rest, devices, used, fixed) if math.isfinite(judge.step(way, splits))]
        overhead_s = calibration.overhead_s if calibration is not None else 0.0
        said[device.name] = _why(ways, splits, judge, free, now=now, overhead_s=overhead_s)
    return said


def with_reasons(prediction: Prediction, reasons: Mapping[str, str]) -> Prediction:
    """Return the prediction with the reasons from ``why_unused`` attached to its devices."""
    loads = [msgspec.structs.replace(load, unused=reasons.get(load.device, "")) for load in prediction.devices]
    return msgspec.structs.replace(prediction, devices=loads)


def _why(
    ways: Sequence[Where],
    splits: Mapping[str, Sequence[str]],
    judge: Judge,
    free: Judge,
    *,
    now: float,
    overhead_s: float,
) -> str:
    if not ways:
        return "no remaining layer fits on it"

    def told(some: Sequence[Where], where: str) -> tuple[Where, str]:
        best = min(some, key=lambda way: judge.step(way, splits))
        then = judge.step(best, splits)
        return best, f"a step would take {seconds_(then + overhead_s)} {where}, {seconds_(now + overhead_s)} without"

    best, both = told(ways, "with it")
    if judge.step(best, splits) < now:
        return both
    together = [way for way in ways if len({*way.values()}) > 1 or splits]
    if not together:
        return told(ways, "on it alone")[1]
    best, both = told(together, "with it")
    if free.step(best, splits) < now:
        return f"copying to it costs more than it saves: {both}"
    if judge.costs.microbatches == 1:
        return f"with one microbatch, devices take turns: {both}"
    return f"other devices would wait for it: {both}"
