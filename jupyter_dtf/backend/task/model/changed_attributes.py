"""Plain attributes that training has changed on a model and on its custom layers, and that are sent back.

Importing this module does not import Keras.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .attributes import bare, is_plain, names_of_keras, same
from .custom_objects import is_of_keras

_MOST_BYTES = 1 << 20
"""Attributes that hold larger arrays are not compared."""
_OF_FIT = frozenset(
    {"stop_training", "stop_evaluating", "stop_predicting", "history", "_initial_epoch", "_eval_epoch_iterator"}
)
"""Attributes that Keras sets on a model during training."""

Values = dict[int, dict[str, Any]]
"""Plain attributes, keyed by the layer's position in the model and the attribute's name."""


@dataclass
class ChangedAttributes:
    """The attributes of one layer that training has changed."""

    values: dict[str, Any]
    """The new values, keyed by name."""
    names: frozenset[str] = field(default_factory=frozenset)
    """The names of all attributes that the layer had after training, except Keras's own."""


def values_of(model: Any) -> Values:
    """Return copies of the plain attributes of a model and of its custom layers."""
    found: Values = {}
    for position, layer in enumerate(model._flatten_layers()):
        is_custom = not is_of_keras(type(layer))
        if not is_custom and layer is not model:
            continue
        found[position] = {
            name: copy.deepcopy(bare(value))
            for name, value in vars(layer).items()
            if _is_the_users(name, is_custom) and is_plain(value) and _bytes(value) <= _MOST_BYTES
        }
    return found


def changes(model: Any, before: Values) -> dict[int, ChangedAttributes]:
    """Return the attributes that have changed since ``values_of`` returned ``before``, by the layer's position."""
    layers = model._flatten_layers()
    found = {}
    for position, now in values_of(model).items():
        known = before.get(position, {})
        changed = {name: value for name, value in now.items() if name not in known or not same(known[name], value)}
        if changed:
            layer = layers[position]
            is_custom = not is_of_keras(type(layer))
            names = (name for name in vars(layer) if _is_the_users(name, is_custom) and not hasattr(type(layer), name))
            found[position] = ChangedAttributes(changed, frozenset(names))
    return found


def put_back(model: Any, before: Values) -> None:
    """Undo the changes since ``values_of`` returned ``before``, except that attributes are not removed."""
    layers = model._flatten_layers()
    for position, changed in changes(model, before).items():
        for name in changed.values.keys() & before.get(position, {}).keys():
            setattr(layers[position], name, before[position][name])


def give(model: Any, changed: dict[int, ChangedAttributes]) -> None:
    """Set attributes that training has changed elsewhere.

    A flag is not set if the layer lacks other attributes: it may say that these exist.
    """
    layers = model._flatten_layers()
    for position, attributes in changed.items():
        if position >= len(layers):
            continue
        layer = layers[position]
        is_complete = attributes.names <= vars(layer).keys() | attributes.values.keys()
        for name, value in attributes.values.items():
            if is_complete or not isinstance(value, bool):
                setattr(layer, name, value)


def _is_the_users(name: str, is_custom: bool) -> bool:
    if name in _OF_FIT or name in names_of_keras() or name.startswith("__"):
        return False
    return is_custom or not name.startswith("_")


def _bytes(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_bytes, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return sum(map(_bytes, value))
    return value.nbytes if isinstance(value, np.ndarray) else len(value) if isinstance(value, (str, bytes)) else 8
