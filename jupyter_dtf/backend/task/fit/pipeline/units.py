"""The units of training and their devices. A unit is a variable of a model or its optimizer, or a part of one.

A part of a split variable is itself a variable with its own slots, so that an optimizer updates it on its device.
Variables are split along their last axis, the columns.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, NamedTuple

import keras
import numpy as np

from ...checkpoint.shards import slice_of
from ...describe import stateful
from ..gradient_sync import optimizers_of
from ..parameter_server.slots import Slot, build, fresh
from .forward import scope_name
from .layer_devices import Places


class Home(NamedTuple):
    """The device on which a variable is kept, and the variable's name scope."""

    device: str
    scope: str


class Units:
    """The variables of a model placed on devices. ``client``: the device for variables that belong to no layer."""

    def __init__(self, model: Any, layers: Mapping[str, Any], places: Places, client: str) -> None:
        self._parts: dict[int, list[Any]] = {}
        self._whole: list[tuple[Any, list[Any]]] = []
        """The split variables, each with the parts that replace it on the devices."""
        self.homes: list[tuple[Any, Home]] = []
        """Every variable that is kept on a device, with its home."""
        found: dict[int, list[Home]] = {}
        before = client
        for path, layer in layers.items():
            # A layer without a place has only random state, as in Dropout: place it with the previous layer.
            devices = places.of(path) or [before]
            before = devices[0]
            homes = [Home(device, scope_name(places.name(path))) for device in devices]
            for variable in (*layer.variables, *stateful.states(layer)):
                found.setdefault(id(variable), homes)  # for a layer with several ids, the first id counts
        for variable in (*model.variables, *stateful.states(model)):
            self._keep(variable, found.get(id(variable), [Home(client, "model")]))
        self.trainable = [unit for variable in model.trainable_variables for unit in self.parts(variable)]
        self.optimizer = self._of_parts(model) if self._whole else model.optimizer
        """The model's own optimizer, or, if variables are split, an optimizer with the same settings for the units."""
        own = Home(client, "optimizer")
        self._keep_slots(model, found, own)
        for optimizer in optimizers_of(model)[1:]:
            if optimizer.built:
                variables = optimizer._trainable_variables
                for slot, variable in zip(build(fresh(optimizer), variables), optimizer.variables, strict=True):
                    owner = None if slot.variable is None else variables[slot.variable]
                    self.homes.append((variable, own if owner is None else found.get(id(owner), [own])[0]))

    def parts(self, variable: Any) -> list[Any]:
        """Return the units of one of the model's variables: itself, or its parts in the order of their columns."""
        return self._parts.get(id(variable), [variable])

    @property
    def split(self) -> list[tuple[Any, list[Any]]]:
        """The model's split variables, each with its parts."""
        return [(variable, parts) for variable, parts in self._whole if id(variable) in self._parts]

    def take_apart(self) -> None:
        """Copy the values of the model and its optimizer to the parts."""
        for variable, parts in self._whole:
            value, start = variable.numpy(), 0
            for part in parts if len(parts) > 1 else []:
                part.assign(value[..., start : start + part.shape[-1]])
                start += part.shape[-1]
            if len(parts) == 1:
                parts[0].assign(value)

    def put_together(self, left_out: Container[int] = ()) -> None:
        """Copy the values of the parts to the model and its optimizer, except variables with ids in ``left_out``."""
        for variable, parts in self._whole:
            if id(parts[0]) in left_out:
                continue
            values = [part.numpy() for part in parts]
            variable.assign(values[0] if len(parts) == 1 else np.concatenate(values, -1))

    def stored(self, keys: Mapping[int, str]) -> dict[int, tuple[str, str]]:
        """Return the key and the slice (``slice_of``; empty: the whole variable) of each kept variable, keyed by the
        variable's id.

        A part has the key of the whole variable. ``keys``: the keys of whole variables, keyed by the variable's id.
        Variables without a key are left out.
        """
        places: dict[int, tuple[Any, str]] = {}
        for variable, parts in self._whole:
            first = 0
            for part in parts:
                columns = slice_of(variable.shape, -1, first, part.shape[-1]) if len(parts) > 1 else ""
                first += part.shape[-1] if columns else 0
                places[id(part)] = variable, columns
        found = {}
        for kept, _ in self.homes:
            variable, columns = places.get(id(kept), (kept, ""))
            if id(variable) in keys:
                found[id(kept)] = keys[id(variable)], columns
        return found

    def _keep(self, variable: Any, homes: list[Home]) -> None:
        if len(homes) == 1:
            self.homes.append((variable, homes[0]))
            return
        value = variable.numpy()
        bounds = [value.shape[-1] * number // len(homes) for number in range(len(homes) + 1)]
        parts = []
        for number, home in enumerate(homes):
            cut = value[..., bounds[number] : bounds[number + 1]]
            part = keras.Variable(
                cut, trainable=variable.trainable, name=f"{variable.name}_{number}", dtype=variable.dtype
            )
            self.homes.append((part, home))
            parts.append(part)
        self._parts[id(variable)] = parts
        self._whole.append((variable, parts))

    def _of_parts(self, model: Any) -> Any:
        """Return an optimizer for the parts.

        It applies weight decay to a part if it would apply to the whole variable.
        """
        made = fresh(model.optimizer)
        whole, own = (getattr(each, "inner_optimizer", each) for each in (model.optimizer, made))
        excluded = [v for v in model.trainable_variables if not whole._use_weight_decay(v.value)]
        own.exclude_from_weight_decay(var_list=[part.value for v in excluded for part in self.parts(v)])
        return made

    def _keep_slots(self, model: Any, found: Mapping[int, list[Home]], own: Home) -> None:
        """Keep slots on the devices of their variables, and record the slots of parts as parts of the model's slots."""
        whole = model.trainable_variables
        slots = build(fresh(model.optimizer), whole)
        of_whole = dict(zip(slots, model.optimizer.variables, strict=True))
        owners = [number for number, variable in enumerate(whole) for _ in self.parts(variable)]
        unit_slots = slots if self.optimizer is model.optimizer else build(self.optimizer, self.trainable)
        kept: dict[Slot, list[Any]] = {}
        for slot, variable in zip(unit_slots, self.optimizer.variables, strict=True):
            owner = None if slot.variable is None else owners[slot.variable]
            siblings = kept.setdefault(Slot(owner, slot.number), [])
            homes = [own] if owner is None else found.get(id(whole[owner]), [own])
            self.homes.append((variable, homes[len(siblings)]))
            siblings.append(variable)
        if self.optimizer is not model.optimizer:
            self._whole += [(of_whole[slot], variables) for slot, variables in kept.items()]
