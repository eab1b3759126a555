"""The devices of a model's layers, and checks of placements. Pure, except that the given layers are Keras objects. Also
used by the client.
"""

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
    """The devices of a model's layers, keyed by the ids of layers and of containers that are placed as a whole."""

    placement: Placement
    """The placement, with the full names of devices."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The names that the placement uses for layers and containers that have a different id in this process, keyed by
    that id.
    """

    def of(self, layer: str) -> list[str]:
        """Return the devices of a layer or its parts.

        A layer without a device runs on the device of its largest input.
        """
        return self.placement.devices_of(self.name(layer))

    def name(self, layer: str) -> str:
        """Return the name that the placement uses for a layer."""
        return self.names.get(layer, layer)

    def renamed(self, here: Iterable[str], there: Sequence[str]) -> Places:
        """Return these places for a model that was rebuilt in another process.

        Both arguments contain the ids of all of the model's layers, in the order of their calls. The ids may differ,
        because each process numbers the layers that it creates without given names.
        """
        names = {}
        for own, known in zip(here, there, strict=True):
            ours, theirs = own.split("/"), known.split("/")
            for depth in range(1, len(ours) + 1):
                names["/".join(ours[:depth])] = "/".join(theirs[:depth])
        return replace(self, names=names)

    def copies(self, tasks: Sequence[str], count: int, gang: Sequence[str] = ()) -> list[Places]:
        """Return the places of ``count`` copies of the pipeline, each on ``len(tasks) / count`` consecutive tasks.

        Args:
            tasks: The names of the current tasks, such as ``worker:1``, in rank order.
            count: The number of copies.
            gang: The names of the tasks that the placement refers to, in rank order, if there are fewer tasks now.
        """
        named = list(gang or tasks)

        def shifted(device: str, ranks: int) -> str:
            found = parts(device)
            job, _, index = tasks[named.index(f"{found['job']}:{found['task']}") + ranks].partition(":")
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
        """All devices without duplicates, in the order in which the placement names them."""
        splits = self.placement.splits.values()
        named = [*self.placement.devices.values(), *(device for devices in splits for device in devices)]
        return list(dict.fromkeys(named))


def full_device(device: str, field: str) -> str:
    """Return the full name of a device, such as ``/job:worker/task:1/device:CPU:0``, given any valid spelling.

    Raises InvalidInput if the name has no job or task.
    """
    found = parts(device)
    if "job" not in found or not found.get("task", "").isdigit():
        raise InvalidInput(
            f"`{field}` must be a device with job and task, such as /job:worker/task:1/device:CPU:0, got {device!r}",
            field=field,
        )
    return plain(device if "type" in found else f"{device}/device:CPU:0")


def read(placement: Placement) -> Places:
    """Return the places of a placement, with full device names. Raises InvalidInput for invalid devices."""
    devices = {layer: full_device(device, f"placement.devices.{layer}") for layer, device in placement.devices.items()}
    splits = {}
    for layer, names in placement.splits.items():
        splits[layer] = [full_device(device, f"placement.splits.{layer}") for device in names]
        if len(names) < 2 or layer in devices:
            raise InvalidInput(
                f"`placement.splits.{layer}` must be two devices or more, without a device for the whole layer, got "
                f"{names}{' and ' + devices[layer] if layer in devices else ''}",
                field=f"placement.splits.{layer}",
            )
    if not devices and not splits:
        raise InvalidInput("`placement` must place at least one layer, got an empty one", field="placement")
    return Places(Placement(devices=devices, splits=splits))


def check_tasks(places: Places, tasks: Sequence[str], copies: int) -> None:
    """Raise InvalidInput unless all devices are on tasks of the first copy, and ``copies`` divides the number of tasks.

    ``tasks``: the names of the run's tasks, in rank order.
    """
    if len(tasks) % copies:
        raise InvalidInput(
            f"`replicas` must divide the number of tasks ({len(tasks)}), got {copies}",
            field="strategy.replicas",
        )
    there = tasks[: len(tasks) // copies]
    for device in places.all:
        found = parts(device)
        if f"{found['job']}:{found['task']}" not in there:
            which = "run" if copies == 1 else f"first of {copies} copies"
            raise InvalidInput(
                f"`placement` must use tasks of the {which} ({', '.join(there)}), got {device!r}",
                field="placement.devices",
            )


def check_layers(places: Places, layers: Mapping[str, Any]) -> None:
    """Raise InvalidInput unless every name is a layer or container, and every layer with weights has a place.

    ``layers``: the layers keyed by id, as returned by ``describe.layers_by_id``.
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
            f"`placement` must name layers of the model ({_few(layers)}), got {_few(unknown)}",
            field=f"placement.devices.{unknown[0]}",
        )
    homeless = [path for path, layer in layers.items() if layer.weights and not places.of(path)]
    if homeless:
        raise InvalidInput(
            f"`placement` must place every layer that has weights, got no device for {_few(homeless)}",
            field="placement.devices",
        )
    for name in places.placement.splits:
        kind = type(layers[name]).__name__ if name in layers else "a container"
        if name not in layers or not can_be_split(layers[name]):
            raise InvalidInput(
                f"`placement.splits` must name layers of the class {' or '.join(SPLITTABLE)}, got {name}, {kind}",
                field=f"placement.splits.{name}",
            )


def can_be_split(layer: Any) -> bool:
    """Return whether a layer is of a Keras class whose columns can be split among several devices."""
    return type(layer).__name__ in SPLITTABLE and type(layer).__module__.startswith("keras.")


def _few(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _MANY} more" if len(listed) > _MANY else ""
    return f"{', '.join(listed[:_MANY])}{more}"
