"""The devices on which a pipeline's layers ran, and each device's busy times, from the RunMetadata of a step. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .....schema.design import LayerPlace, RunPlacement
from .....schema.placement import Slot
from ...trace.device_names import plain

_MOVES = frozenset({"_Send", "_Recv", "_HostSend", "_HostRecv", "Const", "NoOp"})
_RECEIVED = re.compile(r"_S\d+$")
_OF_LAYER = re.compile(r"(?:^|/)(?:forward/\d+|variables)/(?P<rest>.+)$")
_OF_PHASE = re.compile(r"(?P<phase>forward|backward)/(?P<microbatch>\d+)/|(?P<update>update)/")

_GAP, _SEEN = 0.01, 0.002
"""Fractions of a step's duration: the largest gap between operations of one slot, and the shortest slot shown."""


def run_placement(metadata: Any, planned: Mapping[str, Sequence[str]], scopes: Mapping[str, str]) -> RunPlacement:
    """Return the planned and actual devices of layers, and the timeline. ``scopes``: the name scope of each layer.

    A layer consists of its variables, its forward operations, and the backward operations derived from them.
    """
    layers = {scope: layer for layer, scope in scopes.items()}
    found: dict[str, set[str]] = {layer: set() for layer in scopes}
    for graph in metadata.partition_graphs:
        for node in graph.node:
            layer = None if _moves(node) else _layer(node.name, layers)
            if layer is not None:
                found[layer].add(plain(node.device))
    slots = _slots(metadata)
    return RunPlacement(
        layers=[
            LayerPlace(layer=layer, planned=list(planned[layer]), actual=sorted(devices))
            for layer, devices in found.items()
        ],
        timeline=slots,
        step_seconds=max((slot.start_s + slot.duration_s for slot in slots), default=0.0),
    )


def _moves(node: Any) -> bool:
    """Return whether a node does no work, or belongs to a transfer that TensorFlow adds between graph partitions."""
    return node.op in _MOVES or (node.op == "Identity" and bool(_RECEIVED.search(node.name)))


def _layer(node: str, layers: Mapping[str, str]) -> str | None:
    """Return the layer whose name scope contains a node or the forward node that it was derived from; None if there is
    no such layer.
    """
    match = _OF_LAYER.search(node)
    scope = match["rest"] if match else ""
    while scope and scope not in layers:
        scope = scope.rpartition("/")[0]
    return layers.get(scope)


def _slots(metadata: Any) -> list[Slot]:
    """Return the times at which each device worked on each microbatch and phase, ordered by start.

    Operations that do not depend on the batch, such as seeds of random numbers, run as soon as the step starts. A phase
    therefore has several slots if there are gaps between its operations. Slots too short to be visible are left out.
    """
    ran: dict[tuple[str, int, str], list[tuple[float, float]]] = {}
    passed: dict[str, float] = {}
    for device in metadata.step_stats.dev_stats:
        name = plain(device.device)
        for node in device.node_stats:
            if match := _OF_PHASE.match(node.node_name):
                start = node.all_start_micros + node.op_start_rel_micros
                end = node.all_start_micros + node.op_end_rel_micros
                phase = match["phase"] or match["update"]
                ran.setdefault((name, int(match["microbatch"] or 0), phase), []).append((start, end))
                if match["phase"]:
                    passed[name] = max(passed.get(name, 0.0), end)
    origin = min((start for spans in ran.values() for start, _ in spans), default=0.0)
    step = max((end for spans in ran.values() for _, end in spans), default=0.0) - origin
    slots = [
        Slot(
            device=device,
            microbatch=microbatch,
            phase=phase,
            start_s=(start - origin) / 1e6,
            duration_s=(end - start) / 1e6,
        )
        for (device, microbatch, phase), spans in ran.items()
        for start, end in _together(spans, step)
        if phase != "update" or start >= passed.get(device, 0.0)
    ]
    return sorted(slots, key=lambda slot: slot.start_s)


def _together(spans: Sequence[tuple[float, float]], step: float) -> list[tuple[float, float]]:
    """Merge adjacent spans, and return those that are long enough to be visible, or only the longest if none is."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if merged and start - merged[-1][1] <= step * _GAP:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    longest = max(end - start for start, end in merged)
    return [(start, end) for start, end in merged if end - start >= min(longest, step * _SEEN)]
