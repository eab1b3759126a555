"""Validation of the classes and functions in a model's configuration.

Keras's own classes and functions are accepted, except those that run code from the configuration. All others are
rejected.

A configuration is a tree of ``{"class_name", "config", "module", "registered_name"}`` dicts, and deserializing it
creates an object for each of them: Keras imports the named modules and looks up registered classes, and some layers run
code that is in their configuration. This module checks the whole tree before it is passed to Keras.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

import keras

from ....errors import InvalidInput

MAX_LAYERS = 100_000
"""The maximum number of layers. Describing more layers would take hours."""

_RUN_CODE = {
    "Lambda": "contains code of its own",
    "TFSMLayer": "runs a SavedModel that it names",
    "TorchModuleWrapper": "unpickles a module",
    "JaxLayer": "runs a function that it names",
    "FlaxLayer": "runs a module that it names",
    "FeatureSpace": "creates layers that cannot be checked in advance",
    "__lambda__": "contains code of its own",
    "__typespec__": "names a class of another library",
}
_PLAIN = ("__tensor__", "__numpy__", "__bytes__", "__ellipsis__", "__slice__", "__keras_tensor__")
_MODULES = (
    "keras.layers",
    "keras.models",
    "keras",
    "keras.initializers",
    "keras.regularizers",
    "keras.constraints",
    "keras.optimizers",
    "keras.optimizers.schedules",
    "keras.optimizers.legacy",
    "keras.losses",
    "keras.metrics",
    "keras.dtype_policies",
    "keras.quantizers",
)
_FUNCTIONS = ("keras.activations", "keras.losses", "keras.metrics", "keras.initializers", "keras.ops", "keras.ops.nn")
_TAKE_FUNCTIONS = (
    "associative_scan", "cond", "custom_gradient", "fori_loop", "map", "scan", "switch", "vectorized_map", "while_loop",
)  # fmt: skip
_INSIDE = ("keras.src.ops.", "keras.src.models.", "keras.src.layers.", "keras.src.losses.", "keras.src.metrics.")
"""The prefixes of the modules with classes that have no public name, such as operations on tensors and ``Functional``.
"""
_WORDS = ("StringLookup", "IntegerLookup", "TextVectorization")
_NAME = re.compile(r"[A-Za-z0-9_.>-]+\Z")
_INSTEAD = "Describe the model in the notebook that creates it"


def check_classes(config: Any, what: str) -> None:
    """Raise InvalidInput unless a configuration contains only Keras's own classes. ``what`` is the name of the file."""
    layers = 0
    for item in _dicts(config):
        name = item.get("class_name")
        if "class_name" not in item:
            continue
        if not isinstance(name, str):
            raise InvalidInput(f"{what}: a class_name must be a string, got {name!r:.100}", field="path")
        if reason := _RUN_CODE.get(name):
            raise InvalidInput(
                f"{what} must contain only objects that can be described without being run, got a {name}, which "
                f"{reason}. {_INSTEAD}",
                field="path",
            )
        if name in _PLAIN:
            continue
        if name == "function":
            _check_function(item, what)
        elif not _is_known_class(item, name):
            raise _foreign(what, "class", name, item)
        if name in _WORDS and isinstance(inner := item.get("config"), dict):
            _check_words(inner, what, name)
        is_layer = hasattr(keras.layers, name)
        if is_layer and isinstance(inner := item.get("config"), dict):
            _check_name(inner.get("name"), what)
        layers += is_layer
        if layers > MAX_LAYERS:
            raise InvalidInput(f"{what} must have at most {MAX_LAYERS} layers, got more", field="path")


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all dicts within a value, outer ones first."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


def _is_known_class(item: dict[str, Any], name: str) -> bool:
    module, registered = item.get("module"), item.get("registered_name")
    if registered not in (None, "", name):
        return False
    if module is None:  # from an .h5 file
        return any(_class(place, name) for place in _MODULES) or name in ("Functional", "Model", "Sequential")
    if not isinstance(module, str):
        return False
    return _class(module, name) if module in _MODULES else module.startswith(_INSIDE) and _class(module, name)


def _class(module: str, name: str) -> bool:
    """Return whether a loaded module has a Keras class with this name."""
    found = vars(sys.modules[module]).get(name) if module in sys.modules else None
    return inspect.isclass(found) and found.__module__.startswith("keras.") and hasattr(found, "from_config")


def _check_function(item: dict[str, Any], what: str) -> None:
    name, module = item.get("config"), item.get("module")
    places = _FUNCTIONS if module == "builtins" else (module,) if module in _FUNCTIONS else ()
    is_plain = isinstance(name, str) and name not in _TAKE_FUNCTIONS and item.get("registered_name") in _names(name)
    if not is_plain or not any(inspect.isfunction(vars(sys.modules[place]).get(str(name))) for place in places):
        raise _foreign(what, "function", name, item)


def _names(name: Any) -> tuple[Any, ...]:
    return (None, "", "function", name)


def _check_name(name: Any, what: str) -> None:
    """Check a layer's name, which becomes a scope in TensorFlow graphs. Keras does not allow slashes in it."""
    if name is not None and not (isinstance(name, str) and _NAME.match(name)):
        raise InvalidInput(
            f"{what}: the name of a layer must be made of the letters A to Z and a to z, digits, and . _ > -, got "
            f"{name!r:.100}",
            field="path",
        )


def _check_words(config: dict[str, Any], what: str, kind: str) -> None:
    """Reject a vocabulary that is a string, which Keras would read as a file."""
    for field in ("vocabulary", "idf_weights"):
        if isinstance(config.get(field), (str, bytes)):
            raise InvalidInput(
                f"{what}: the {field} of a {kind} must be a list, got the name of a file: {config[field]!r:.100}",
                field="path",
            )


def _foreign(what: str, kind: str, name: Any, item: dict[str, Any]) -> InvalidInput:
    where = item.get("registered_name") or item.get("module") or "no module"
    return InvalidInput(
        f"{what} must contain only Keras's own layers, because no other code is run, got the {kind} {name!r:.100} of "
        f"{where!r:.100}. {_INSTEAD}",
        field="path",
    )
