"""Where a model's layers are to run, and what that is expected to cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ..errors import InvalidInput
from .api import Problem
from .base import PeerStruct, Struct
from .graph import containers_of
from .sizes import bytes_, seconds_

SPLITTABLE = ("Dense", "Embedding")
"""Classes of layers whose columns may be parted among devices."""
_FEW = 6
_WIDTH = 72


class Placement(Struct):
    """Where each layer runs. A layer is in ``devices`` or in ``splits``."""

    devices: dict[str, str] = {}
    """The device of each layer, ``/job:worker/task:1/device:CPU:0``."""
    splits: dict[str, list[str]] = {}
    """Layers whose columns are parted: the devices that each hold a part, in the order of the columns."""
    pinned: list[str] = []
    """Layers whose place a person chose. Automatic placement leaves them there."""

    def devices_of(self, layer: str) -> list[str]:
        """The device of a layer, or those of its parts; none where neither it nor a container of it is placed."""
        name = self.placed_as(layer)
        return self.splits[name] if name in self.splits else [self.devices[name]] if name else []

    def placed_as(self, layer: str) -> str:
        """By which name a layer has its place: its own or that of the nearest container; empty where it has none."""
        names = (name for name in (layer, *containers_of(layer)) if name in self.splits or name in self.devices)
        return next(names, "")

    def show(self) -> None:
        """Print the layers of each device."""
        print(_placement_text(self, most=len(self.devices) + len(self.splits)))  # noqa: T201 - for a person

    def __repr__(self) -> str:
        return _placement_text(self)


class Device(Struct):
    """A device that layers may be placed on."""

    name: str
    """``/job:worker/task:1/device:CPU:0``."""
    flops_per_s: float
    memory_bytes: int = 0
    """0: as much as is wanted."""

    def __post_init__(self) -> None:
        if not self.flops_per_s > 0:
            raise InvalidInput(f"flops_per_s is above 0. Received: {self.flops_per_s}", field="flops_per_s")


class Link(Struct):
    """What it takes to send something from one device to another."""

    bytes_per_s: float = 1e9
    latency_s: float = 2e-4

    def __post_init__(self) -> None:
        if not self.bytes_per_s > 0 or self.latency_s < 0:
            raise InvalidInput(
                f"bytes_per_s is above 0 and latency_s not below it. Received: {self.bytes_per_s}, {self.latency_s}",
                field="link",
            )


class Calibration(Struct):
    """What a short run on the real devices measured."""

    batch_size: int
    """Examples of the microbatch it was measured with."""
    devices: list[Device]
    link: Link
    layer_seconds: dict[str, list[float]] = {}
    """On a device as fast as the first: the forward and the backward pass of a microbatch, the update of a step."""
    overhead_s: float = 0.0
    """Of each step, beside what layers and transfers take."""

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise InvalidInput(f"batch_size is above 0. Received: {self.batch_size}", field="batch_size")
        if not self.devices:
            raise InvalidInput("A calibration has measured one device at least. Received: none", field="devices")
        for layer, seconds in self.layer_seconds.items():
            if len(seconds) != 3 or min(seconds) < 0:
                raise InvalidInput(
                    f"A layer has the seconds of its forward pass, backward pass and update. Received: {seconds}",
                    field=f"layer_seconds.{layer}",
                )
        if self.overhead_s < 0:
            raise InvalidInput(f"overhead_s is not below 0. Received: {self.overhead_s}", field="overhead_s")


class DeviceLoad(Struct):
    """What one device does in a step, and what it needs for it."""

    device: str
    memory_bytes: int
    """Needed: weights, gradients, slots, and the activations of the microbatches that it holds at once."""
    memory_limit_bytes: int = 0
    """There; 0 where that is not known."""
    share: float = 0.0
    """Of the work of a step, from 0 to 1."""
    busy_s: float = 0.0
    """Of each step."""
    sent_bytes: int = 0
    """In each step."""
    received_bytes: int = 0
    layers: int = 0
    problem: str = ""
    """Why it does not fit, with the sizes; empty when it does."""
    unused: str = ""
    """Why it has no layer of a placement that is complete: what a step would take with it."""
    filled_bytes: int = 0
    """Needed if all microbatches went forward before one went back; 0 where they do."""


class Cut(Struct):
    """An edge of the graph that goes from one device to another."""

    source: str
    target: str
    source_device: str
    target_device: str
    bytes: int
    """In the forward pass of one microbatch."""


class Slot(PeerStruct):
    """One device busy with one microbatch, for the timeline."""

    device: str
    microbatch: int
    phase: str  # forward, backward, update
    start_s: float
    duration_s: float


class Prediction(Struct):
    """What a step is expected to take."""

    step_seconds: float
    bubble: float
    """The part of the step, from 0 to 1, in which the devices wait for each other."""
    batch_size: int
    microbatches: int
    calibrated: bool = False
    """By a run on the real devices; otherwise seconds are worth something only in comparison."""
    devices: list[DeviceLoad] = []
    cuts: list[Cut] = []
    timeline: list[Slot] = []
    problems: list[Problem] = msgspec.field(default_factory=list)

    def show(self) -> None:
        """Print what ``repr`` says, and the step as a timeline."""
        print(f"{self!r}\n{_timeline_text(self.timeline)}")  # noqa: T201 - for a person

    def __repr__(self) -> str:
        return _prediction_text(self)


# -- as text for a person, narrow enough for a terminal ------------------------------------------------------------


def _placement_text(what: Placement, most: int = _FEW) -> str:
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


def _prediction_text(what: Prediction) -> str:
    """The step, a row for each device, and what is wrong."""
    known = "" if what.calibrated else ", not calibrated"
    first = f"A step of {what.batch_size} examples in {what.microbatches} microbatches: "
    first += f"{seconds_(what.step_seconds)}, bubble {what.bubble:.0%}{known}"
    rows = [["device", "layers", "work", "busy", "memory", "sent"]]
    for load in what.devices:
        limit = f" of {bytes_(load.memory_limit_bytes)}" if load.memory_limit_bytes else ""
        memory = f"{bytes_(load.memory_bytes)}{limit}"
        busy = seconds_(load.busy_s)
        rows.append([load.device, str(load.layers), f"{load.share:.0%}", busy, memory, bytes_(load.sent_bytes)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    less = [load for load in what.devices if load.filled_bytes > load.memory_bytes]
    more = [
        f"{load.device} needs {bytes_(load.memory_bytes)}, and would need {bytes_(load.filled_bytes)} if all "
        "microbatches went forward before one went back"
        for load in less
    ]
    unused = [f"{load.device} has no layer: {load.unused}" for load in what.devices if load.unused]
    return "\n".join([first, *table, *more, *unused, *(problem.message for problem in what.problems)])


def _timeline_text(slots: Sequence[Slot], width: int = _WIDTH) -> str:
    """A row for each device: the last digit of the microbatch forward, its letter backward, ``=`` for the update."""
    end = max((slot.start_s + slot.duration_s for slot in slots), default=0.0)
    rows: dict[str, list[str]] = {slot.device: ["."] * width for slot in slots}
    marks: Mapping[str, str] = {"forward": "0123456789", "backward": "abcdefghij", "update": "=" * 10}
    for slot in slots:
        first, last = (round(time / end * width) for time in (slot.start_s, slot.start_s + slot.duration_s))
        rows[slot.device][first:last] = marks[slot.phase][slot.microbatch % 10] * (last - first)
    longest = max(map(len, rows), default=0)
    return "\n".join(f"{device.ljust(longest)} {''.join(row)}" for device, row in sorted(rows.items()))
