"""The placement of a model's layers on devices, and its predicted cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ..errors import InvalidInput
from .api import Problem
from .base import PeerStruct, Struct
from .graph import containers_of
from .sizes import bytes_, seconds_

SPLITTABLE = ("Dense", "Embedding")
"""Layer classes whose columns can be split over devices."""
_FEW = 6
_WIDTH = 72


class Placement(Struct):
    """The devices on which the layers of a model run. Each layer is either in ``devices`` or in ``splits``.

    Example:
        >>> dtf.Placement(devices={
        ...     "encoder": "/job:worker/task:0/device:CPU:0",
        ...     "decoder": "/job:worker/task:1/device:CPU:0",
        ... })
    """

    devices: dict[str, str] = {}
    """The device of each layer, such as ``/job:worker/task:1/device:CPU:0``."""
    splits: dict[str, list[str]] = {}
    """For each layer whose columns are split, the devices that hold its parts, in the order of the columns."""
    pinned: list[str] = []
    """The layers whose device the user chose. Automatic placement does not move them."""

    def devices_of(self, layer: str) -> list[str]:
        """Return the device of a layer, or the devices of its parts; empty if it is not placed, even by a container."""
        name = self.placed_as(layer)
        return self.splits[name] if name in self.splits else [self.devices[name]] if name else []

    def placed_as(self, layer: str) -> str:
        """Return the name under which a layer is placed: its own or its nearest container's; empty if there is none."""
        names = (name for name in (layer, *containers_of(layer)) if name in self.splits or name in self.devices)
        return next(names, "")

    def show(self) -> None:
        """Print the layers of each device."""
        print(_placement_text(self, most=len(self.devices) + len(self.splits)))  # noqa: T201 - for a person

    def __repr__(self) -> str:
        return _placement_text(self)


class Device(Struct):
    """A device on which layers can be placed."""

    name: str
    """The name of the device, such as ``/job:worker/task:1/device:CPU:0``."""
    flops_per_s: float
    memory_bytes: int = 0
    """The memory of the device; 0: unlimited."""

    def __post_init__(self) -> None:
        if not self.flops_per_s > 0:
            raise InvalidInput(f"`flops_per_s` must be > 0, got {self.flops_per_s}", field="flops_per_s")


class Link(Struct):
    """The bandwidth and latency between two devices."""

    bytes_per_s: float = 1e9
    latency_s: float = 2e-4

    def __post_init__(self) -> None:
        if not self.bytes_per_s > 0 or self.latency_s < 0:
            raise InvalidInput(
                f"`bytes_per_s` must be > 0 and `latency_s` >= 0, got {self.bytes_per_s} and {self.latency_s}",
                field="link",
            )


class Calibration(Struct):
    """Measurements from a short run on the real devices."""

    batch_size: int
    """The number of examples in the microbatch that was measured."""
    devices: list[Device]
    link: Link
    layer_seconds: dict[str, list[float]] = {}
    """For each layer, the seconds of its forward pass and backward pass for a microbatch, and of its update, on a
    device as fast as the first one."""
    overhead_s: float = 0.0
    """The time that each step takes in addition to layers and transfers, in seconds."""

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise InvalidInput(f"`batch_size` must be > 0, got {self.batch_size}", field="batch_size")
        if not self.devices:
            raise InvalidInput("`devices` must contain at least one device, got none", field="devices")
        for layer, seconds in self.layer_seconds.items():
            if len(seconds) != 3 or min(seconds) < 0:
                raise InvalidInput(
                    f"A layer must have the seconds of its forward pass, backward pass and update, got {seconds}",
                    field=f"layer_seconds.{layer}",
                )
        if self.overhead_s < 0:
            raise InvalidInput(f"`overhead_s` must be >= 0, got {self.overhead_s}", field="overhead_s")


class DeviceLoad(Struct):
    """The work of one device in a step, and the memory that the device needs."""

    device: str
    memory_bytes: int
    """The memory needed for weights, gradients, optimizer slots, and the activations held at one time."""
    memory_limit_bytes: int = 0
    """The memory available; 0 if unknown."""
    share: float = 0.0
    """The device's share of a step's work, from 0 to 1."""
    busy_s: float = 0.0
    """The time per step during which the device is busy, in seconds."""
    sent_bytes: int = 0
    """Bytes sent per step."""
    received_bytes: int = 0
    layers: int = 0
    problem: str = ""
    """Why the layers do not fit on the device, with the sizes; empty if they fit."""
    unused: str = ""
    """Why a complete placement assigns no layer to the device, with the time that a step would take if it did."""
    filled_bytes: int = 0
    """The memory needed if all forward passes of a batch ran before the first backward pass; 0 if that is already the
    order."""


class Cut(Struct):
    """An edge of the graph that connects layers on different devices."""

    source: str
    target: str
    source_device: str
    target_device: str
    bytes: int
    """Bytes in the forward pass of one microbatch."""


class Slot(PeerStruct):
    """A period in which a device is busy with one microbatch, for the timeline."""

    device: str
    microbatch: int
    phase: str  # forward, backward, update
    start_s: float
    duration_s: float


class Prediction(Struct):
    """The predicted cost of a step."""

    step_seconds: float
    bubble: float
    """The fraction of the step, from 0 to 1, during which the devices wait for each other."""
    batch_size: int
    microbatches: int
    calibrated: bool = False
    """Whether the prediction is based on measurements of the real devices; otherwise, times are only relative."""
    devices: list[DeviceLoad] = []
    cuts: list[Cut] = []
    timeline: list[Slot] = []
    problems: list[Problem] = msgspec.field(default_factory=list)

    def show(self) -> None:
        """Print a summary and the step as a timeline."""
        print(f"{self!r}\n{_timeline_text(self.timeline)}")  # noqa: T201 - for a person

    def __repr__(self) -> str:
        return _prediction_text(self)


# -- as text that fits into a terminal -----------------------------------------------------------------------------


def _placement_text(what: Placement, most: int = _FEW) -> str:
    """Return a line for each device, with at most ``most`` of its layers."""
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
    """Return a summary of the step, a row for each device, and the problems."""
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
        "forward passes ran before the first backward pass"
        for load in less
    ]
    unused = [f"{load.device} has no layer: {load.unused}" for load in what.devices if load.unused]
    return "\n".join([first, *table, *more, *unused, *(problem.message for problem in what.problems)])


def _timeline_text(slots: Sequence[Slot], width: int = _WIDTH) -> str:
    """Return a row of characters for each device, as a timeline of the step.

    A forward pass is drawn with the last digit of its microbatch, a backward pass with the corresponding letter, and
    the update with ``=``.
    """
    end = max((slot.start_s + slot.duration_s for slot in slots), default=0.0)
    rows: dict[str, list[str]] = {slot.device: ["."] * width for slot in slots}
    marks: Mapping[str, str] = {"forward": "0123456789", "backward": "abcdefghij", "update": "=" * 10}
    for slot in slots:
        first, last = (round(time / end * width) for time in (slot.start_s, slot.start_s + slot.duration_s))
        rows[slot.device][first:last] = marks[slot.phase][slot.microbatch % 10] * (last - first)
    longest = max(map(len, rows), default=0)
    return "\n".join(f"{device.ljust(longest)} {''.join(row)}" for device, row in sorted(rows.items()))
