"""Changes that a user has made to a model's objects after their creation, which configurations do not contain.

Constraints and regularizers of weights are sent. Models with a method that was replaced on an object are rejected. For
other attributes of custom layers, a task only detects whether they differ from those that it has created itself.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....errors import InvalidInput
from .attributes import names_of_keras
from .custom_objects import is_of_keras
from .model_state import OTHER_WAY

_METHODS = ("call", "train_step", "test_step", "compute_loss", "compute_metrics", "add_loss")
_PLAIN = (str, bytes, bool, int, float, complex, type(None))
_MOST_BYTES = 1 << 20
"""Larger tensors are not compared by value."""

Attached = tuple[Any, Any]
"""The configurations of a weight's constraint and regularizer; None if it has none."""
Prints = dict[tuple[int, str], tuple[str, str]]
"""The layer's name and a fingerprint for each attribute that is compared, keyed by the layer's position in the model
and the attribute's name.
"""


def refuse_own_methods(model: Any) -> None:
    """Raise InvalidInput if a method was replaced on the model or on one of its layers."""
    for layer in model._flatten_layers():
        for name in _METHODS:
            if callable(vars(layer).get(name)):
                raise InvalidInput(
                    f"`model`: methods must be defined in a class, got a {name} that was set on {layer.name!r}, a "
                    f"{type(layer).__name__}, which a task would not have. {OTHER_WAY}",
                    field="model",
                )


def attached(model: Any) -> list[Attached]:
    """Return the configurations of each weight's constraint and regularizer, in the order of ``model.weights``."""
    return [(_config(weight.constraint), _config(weight.regularizer)) for weight in model.weights]


def attach(model: Any, wanted: Sequence[Attached]) -> None:
    """Give the weights of a rebuilt model the constraints and regularizers of the original. Raises InvalidInput if one
    of these is a custom object.
    """
    import keras

    for weight, own, given in zip(model.weights, attached(model), wanted, strict=True):
        for name, mine, config in zip(("constraint", "regularizer"), own, given, strict=True):
            if mine == config:
                continue
            if isinstance(config, str):
                raise InvalidInput(
                    f"`model`: a {name} of {weight.path} must be an argument of its layer, or one of Keras's own, got "
                    f"{config}, which was set later. {OTHER_WAY}",
                    field="model",
                )
            setattr(weight, name, config and keras.saving.deserialize_keras_object(config))


def prints(model: Any) -> Prints:
    """Return the fingerprints of the custom layers' attributes that are neither plain nor Keras's own."""
    found = {}
    for position, layer in enumerate(model._flatten_layers()):
        if is_of_keras(type(layer)):
            continue
        for name, value in vars(layer).items():
            if name not in names_of_keras() and not name.startswith("__") and (made := _print(value)):
                found[position, name] = layer.name, made
    return found


def differing(model: Any, wanted: Prints) -> list[str]:
    """Return the names of the attributes that exist in a rebuilt model but differ from the original's."""
    own = prints(model)
    return [f"{layer}.{key[1]}" for key, (layer, made) in wanted.items() if key in own and own[key][1] != made]


def _config(obj: Any) -> Any:
    """Return a configuration, or a description of a custom object."""
    import keras

    if obj is None:
        return None
    if isinstance(obj, types.FunctionType) or not is_of_keras(type(obj)):  # Keras warns of lambdas
        # Without the names around it: a class that has been sent to another process by value has lost them.
        return getattr(obj, "__name__", type(obj).__name__)
    return keras.saving.serialize_keras_object(obj)


def _print(value: Any) -> str:
    """Return a fingerprint; empty if the value is not compared."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, functools.partial):
        inner = _print(value.func)
        return inner and f"{inner} {[_plain(each) for each in (*value.args, *sorted(value.keywords.items()))]}"
    if isinstance(value, (types.FunctionType, types.MethodType)):
        function = getattr(value, "__func__", value)
        cells = [_plain(cell.cell_contents) for cell in function.__closure__ or () if _is_filled(cell)]
        code = function.__code__
        return _digest(repr((code.co_code, [_plain(each) for each in code.co_consts], code.co_names, cells)).encode())
    if hasattr(value, "numpy") and hasattr(value, "dtype") and not hasattr(value, "regularizer"):
        try:
            array = np.asarray(value.numpy())
        except Exception:  # a symbolic or ragged tensor
            return ""
        if array.nbytes <= _MOST_BYTES and array.dtype != object:
            return f"{array.dtype} {array.shape} {_digest(array.tobytes())}"
        return ""
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if _is_own_object(value):
        held = {name: _part(each) for name, each in sorted(vars(value).items())}
        return f"{type(value).__qualname__} {_digest(repr(held).encode())}"
    return ""


def _is_own_object(value: Any) -> bool:
    """Return whether a value is an instance of a class of the user's own, with attributes."""
    kind = type(value)
    is_other = isinstance(value, (type, types.ModuleType)) or callable(value)
    known = is_of_keras(kind) or kind.__module__.startswith(("tensorflow.", "builtins", "numpy"))
    return not is_other and not known and hasattr(value, "__dict__")


def _part(value: Any) -> Any:
    """Return what is compared of an attribute of a custom object."""
    if isinstance(value, np.ndarray):
        return value.shape, _digest(value.tobytes()) if value.nbytes <= _MOST_BYTES and value.dtype != object else ""
    return type(value).__qualname__ if _is_own_object(value) else _print(value) or _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    return value if isinstance(value, _PLAIN) else type(value).__name__


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
