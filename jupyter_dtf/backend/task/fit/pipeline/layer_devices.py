"""Where each layer of a model goes, checked. Pure, but for the layers themselves; the client checks with it too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .....errors import InvalidInput
from .....schema.graph import containers_of
from .....schema.placement import SPLITTABLE, Placement
from ...trace.device_names import parts, plain

_MANY = 5


@dataclass(frozen=True)
class Places:
    """The devices of a model's layers, by their ids and those of the containers that are placed as a whole."""

    placement: Placement
    """With the full names of devices."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What a placement calls the layers and containers that have another id here."""

    def of(self, layer: str) -> list[str]:
        """The device of a layer, those of its parts, or none: it runs where the largest of its inputs is."""
        return self.placement.devices_of(self.name(layer))

    def name(self, layer: str) -> str:
        """What a placement calls a layer."""
        return self.names.get(layer, layer)

    def renamed(self, here: Iterable[str], there: Sequence[str]) -> Places:
        """The same for a model rebuilt elsewhere. Both are all of its layers, in the order of their calls.

        Layers that were not given a name are numbered by the process that makes them.
        """
        names = {}
        for own, known in zip(here, there, strict=True):
            ours, theirs = own.split("/"), known.split("/")
            for depth in range(1, len(ours) + 1):
                names["/".join(ours[:depth])] = "/".join(theirs[:depth])
        return replace(self, names=names)

    def copies(self, tasks: Sequence[str], count: int) -> list[Places]:
        """The places of so many copies of the pipeline. ``tasks``: those of the run by rank, ``worker:1``.

        This one is the first copy; each other is on the tasks ``len(tasks) / count`` ranks further.
        """

        def shifted(device: str, ranks: int) -> str:
            found = parts(device)
            job, _, index = tasks[tasks.index(f"{found['job']}:{found['task']}") + ranks].partition(":")
            return f"/job:{job}/task:{index}/device:{found['type']}:{found['index']}"

        def moved(ranks: int) -> Placement:
            devices = {layer: shifted(device, ranks) for layer, device in self.placement.devices.items()}
            splits = {
                layer: [shifted(each, ranks) for each in several] for layer, several in self.placement.splits.items()
            }
            return Placement(devices=devices, splits=splits)

        step = len(tasks) // count
        return [replace(self, placement=moved(ranks)) for ranks in range(0, step * count, step)]

    @property
    def all(self) -> list[str]:
        """Every device once, in the order in which they are named."""
        splits = self.placement.splits.values()
        named = [*self.placement.devices.values(), *(device for devices in splits for device in devices)]
        return list(dict.fromkeys(named))


def full_device(device: str, field: str) -> str:
    """``/job:worker/task:1/device:CPU:0`` of any spelling. Raises InvalidInput."""
    found = parts(device)
    if "job" not in found or not found.get("task", "").isdigit():
        raise InvalidInput(
            f"A layer is placed on a device with job and task, /job:worker/task:1/device:CPU:0. Received: {device!r}",
            field=field,
        )
    return plain(device if "type" in found else f"{device}/device:CPU:0")


def read(placement: Placement) -> Places:
    """The places of a placement, devices spelt in one way. Raises InvalidInput for what is no device."""
    devices = {layer: full_device(device, f"placement.devices.{layer}") for layer, device in placement.devices.items()}
    splits = {}
    for layer, names in placement.splits.items():
        splits[layer] = [full_device(device, f"placement.splits.{layer}") for device in names]
        if len(names) < 2 or layer in devices:
            raise InvalidInput(
                "A layer is split over two devices or more, and then has no device of its own. Received: "
                f"{layer} on {names}{' and ' + devices[layer] if layer in devices else ''}",
                field=f"placement.splits.{layer}",
            )
    if not devices and not splits:
        raise InvalidInput("A placement places a layer. Received: an empty one", field="placement")
    return Places(Placement(devices=devices, splits=splits))


def check_tasks(places: Places, tasks: Sequence[str], copies: int) -> None:
    """Raise InvalidInput for a device of a task that the first of ``copies`` does not have. ``tasks``: by rank."""
    if len(tasks) % copies:
        raise InvalidInput(
            f"Copies of a pipeline share the tasks equally. Received: {len(tasks)} tasks, replicas={copies}",
            field="strategy.replicas",
        )
    there = tasks[: len(tasks) // copies]
    for device in places.all:
        found = parts(device)
        if f"{found['job']}:{found['task']}" not in there:
            which = "run" if copies == 1 else f"first of {copies} copies"
            raise InvalidInput(
                f"A layer is placed on a task of the {which}: {', '.join(there)}. Received: {device}",
                field="placement.devices",
            )


def check_layers(places: Places, layers: Mapping[str, Any]) -> None:
    """Raise InvalidInput unless every name is a layer's or a container's, and every layer with weights has a place.

    ``layers``: by id, as ``describe.layers_by_id`` gives them.
    """
    layers = {places.name(path): layer for path, layer in layers.items()}
    containers = {container for layer in layers for container in containers_of(layer)}
    unknown = [
        name
        for name in [*places.placement.devices, *places.placement.splits]
        if name not in layers and name not in containers
    ]
    if unknown:
        raise InvalidInput(
            f"A placement names layers of the model: {_few(layers)}. Received: {_few(unknown)}",
            field=f"placement.devices.{unknown[0]}",
        )
    homeless = [path for path, layer in layers.items() if layer.weights and not places.of(path)]
    if homeless:
        raise InvalidInput(
            f"Every layer that has weights is placed. Received a placement without {_few(homeless)}",
            field="placement.devices",
        )
    for name in places.placement.splits:
        kind = type(layers[name]).__name__ if name in layers else "a container"
        if name not in layers or not can_be_split(layers[name]):
            raise InvalidInput(
                f"A layer that is split is of a class {' or '.join(SPLITTABLE)}. Received: {name}, {kind}",
                field=f"placement.splits.{name}",
            )


def can_be_split(layer: Any) -> bool:
    """Whether it is of one of Keras's classes whose columns can be on several devices."""
    return type(layer).__name__ in SPLITTABLE and type(layer).__module__.startswith("keras.")


def _few(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _MANY} more" if len(listed) > _MANY else ""
    return f"{', '.join(listed[:_MANY])}{more}"
