"""Where a pipeline's layers ran, and which device was busy when, as the RunMetadata of one step shows it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .....schema.design import LayerPlace, RunPlacement
from .....schema.placement import Slot
from ...trace.devices import plain

_MOVES = frozenset({"_Send", "_Recv", "_HostSend", "_HostRecv", "Const", "NoOp"})
_OF_LAYER = re.compile(r"(?:^|/)(?:forward/\d+|variables)/(?P<rest>.+)$")
_OF_PHASE = re.compile(r"(?P<phase>forward|backward)/(?P<microbatch>\d+)/|(?P<update>update)/")


def run_placement(metadata: Any, planned: Mapping[str, Sequence[str]], scopes: Mapping[str, str]) -> RunPlacement:
    """What was planned beside what ran. ``scopes``: the name scope of each layer.

    What a layer is: its variables, its operations forward, and backward those that are derived from them.
    """
    layers = {scope: layer for layer, scope in scopes.items()}
    found: dict[str, set[str]] = {layer: set() for layer in scopes}
    for graph in metadata.partition_graphs:
        for node in graph.node:
            layer = None if node.op in _MOVES else _layer(node.name, layers)
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


def _layer(node: str, layers: Mapping[str, str]) -> str | None:
    """The layer in whose scope a node is, or what it is derived from."""
    match = _OF_LAYER.search(node)
    scope = match["rest"] if match else ""
    while scope and scope not in layers:
        scope = scope.rpartition("/")[0]
    return layers.get(scope)


def _slots(metadata: Any) -> list[Slot]:
    """From the first to the last operation of each device, microbatch and phase; in order of their beginning."""
    spans: dict[tuple[str, int, str], tuple[float, float]] = {}
    updates = []
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            match = _OF_PHASE.match(node.node_name)
            start = node.all_start_micros + node.op_start_rel_micros
            end = node.all_start_micros + node.op_end_rel_micros
            if match and match["phase"]:
                key = plain(device.device), int(match["microbatch"]), match["phase"]
                first, last = spans.get(key, (start, end))
                spans[key] = min(first, start), max(last, end)
            elif match:
                updates.append((plain(device.device), start, end))
    ends = {device: max(e for (d, _, _), (_, e) in spans.items() if d == device) for device, _, _ in spans}
    for device, start, end in updates:
        if start >= ends.get(device, 0):  # what does not depend on the batch has run before
            first, last = spans.get((device, 0, "update"), (start, end))
            spans[device, 0, "update"] = min(first, start), max(last, end)
    origin = min((start for start, _ in spans.values()), default=0)
    slots = [
        Slot(
            device=device,
            microbatch=microbatch,
            phase=phase,
            start_s=(start - origin) / 1e6,
            duration_s=(end - start) / 1e6,
        )
        for (device, microbatch, phase), (start, end) in spans.items()
    ]
    return sorted(slots, key=lambda slot: slot.start_s)
