"""Plain attributes of custom Keras objects that are missing from their configurations but must be sent as well.

An attribute is missing if ``get_config`` omits it, or if it was set after ``__init__``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

_SCALARS = (str, bytes, bool, int, float, complex, np.generic, type(None))


@dataclass
class Attributes:
    """Plain attributes, keyed by name."""

    values: dict[str, Any] = field(default_factory=dict)

    def set_on(self, obj: Any) -> None:
        """Set those attributes of an object that are missing or differ."""
        for name, value in self.values.items():
            if name not in vars(obj) or (is_plain(vars(obj)[name]) and not same(vars(obj)[name], value)):
                setattr(obj, name, value)


def plain_attributes(obj: Any) -> Attributes:
    """Return the plain attributes of an object of a custom class, except those that Keras itself sets."""
    import keras

    is_layer = isinstance(obj, keras.layers.Layer)
    values = {}
    for name, value in vars(obj).items():
        if name in names_of_keras() or name.startswith("__") or not is_plain(value):
            continue
        if is_layer and isinstance(value, bool):
            continue  # usually a flag for something that a rebuilt layer has not created yet
        values[name] = bare(value)
    return Attributes(values)


@cache
def names_of_keras() -> frozenset[str]:
    """Return the names of the attributes that Keras's own base classes set."""
    import keras

    plain = keras.Sequential([keras.Input((1,), name="plain")], name="plain")
    plain.compile(keras.optimizers.Optimizer(0.1, name="plain"), "mse")
    bases = [plain, plain._functional, plain.optimizer, keras.layers.Layer(name="plain")]
    bases += [keras.metrics.Mean("plain"), keras.Model(name="plain")]
    return frozenset(name for base in bases if base is not None for name in vars(base))


def is_plain(value: Any) -> bool:
    """Return whether a value is a number, a string, an array, or a container of plain values."""
    if isinstance(value, dict):
        return all(is_plain(key) and is_plain(item) for key, item in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(is_plain(item) for item in value)
    return isinstance(value, (*_SCALARS, np.ndarray))


def bare(value: Any) -> Any:
    """Convert containers to Python's own types: Keras uses its own types for attributes of layers."""
    if isinstance(value, dict):
        return {key: bare(item) for key, item in value.items()}
    for kind in (list, set, frozenset):
        if isinstance(value, kind):
            return kind(bare(item) for item in value)
    if type(value) is tuple:
        return tuple(bare(item) for item in value)
    return value


def same(ours: Any, theirs: Any) -> bool:
    """Return whether two plain values are equal and of the same types."""
    if isinstance(theirs, dict):
        return isinstance(ours, dict) and ours.keys() == theirs.keys() and all(same(ours[k], theirs[k]) for k in theirs)
    if isinstance(theirs, (list, tuple)):
        alike = isinstance(ours, tuple) == isinstance(theirs, tuple) and isinstance(ours, (list, tuple))
        return alike and len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, np.ndarray) or isinstance(theirs, np.ndarray):
        return type(ours) is type(theirs) and ours.dtype == theirs.dtype and bool(np.array_equal(ours, theirs))
    if isinstance(theirs, (set, frozenset)):
        return isinstance(ours, (set, frozenset)) and bool(ours == theirs)
    return type(ours) is type(theirs) and bool(ours == theirs)
