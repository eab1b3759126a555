"""Placements and predictions as text for a person, narrow enough for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .sizes import bytes_

if TYPE_CHECKING:
    from .placement import Placement, Prediction, Slot

_FEW = 6
_WIDTH = 72


def placement(what: Placement, most: int = _FEW) -> str:
    """A line for each device, with so many of its layers."""
    layers: dict[str, list[str]] = {}
    for layer, device in what.devices.items():
        layers.setdefault(device, []).append(layer)
    for layer, devices in what.splits.items():
        for number, device in enumerate(devices, 1):
            layers.setdefault(device, []).append(f"{layer} ({number} of {len(devices)})")
    lines = []
    for device in sorted(layers):
        listed, count = layers[device][:most], len(layers[device])
        more = f", ... ({count} layers)" if count > most else ""
        lines.append(f"{device}: {', '.join(listed)}{more}")
    return "\n".join(lines) or "Placement(): no layer has a device"


def prediction(what: Prediction) -> str:
    """The step, a row for each device, and what is wrong."""
    known = "" if what.calibrated else ", not calibrated"
    first = f"A step of {what.batch_size} examples in {what.microbatches} microbatches: "
    first += f"{what.step_seconds * 1000:.4g} ms, bubble {what.bubble:.0%}{known}"
    rows = [["device", "layers", "work", "busy", "memory", "sent"]]
    for load in what.devices:
        limit = f" of {bytes_(load.memory_limit_bytes)}" if load.memory_limit_bytes else ""
        memory = f"{bytes_(load.memory_bytes)}{limit}"
        busy = f"{load.busy_s * 1000:.4g} ms"
        rows.append([load.device, str(load.layers), f"{load.share:.0%}", busy, memory, bytes_(load.sent_bytes)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([first, *table, *(problem.message for problem in what.problems)])


def timeline(slots: Sequence[Slot], width: int = _WIDTH) -> str:
    """A row for each device: the last digit of the microbatch forward, its letter backward, ``=`` for the update."""
    end = max((slot.start_s + slot.duration_s for slot in slots), default=0.0)
    rows: dict[str, list[str]] = {slot.device: ["."] * width for slot in slots}
    marks: Mapping[str, str] = {"forward": "0123456789", "backward": "abcdefghij", "update": "=" * 10}
    for slot in slots:
        first, last = (round(time / end * width) for time in (slot.start_s, slot.start_s + slot.duration_s))
        rows[slot.device][first:last] = marks[slot.phase][slot.microbatch % 10] * (last - first)
    longest = max(map(len, rows), default=0)
    return "\n".join(f"{device.ljust(longest)} {''.join(row)}" for device, row in sorted(rows.items()))
