"""Plain attributes of a model and of the objects that it consists of: which of them training or callbacks have changed.

The objects are the model, its layers, regularizers, constraints, losses, metrics, optimizers and schedules, and objects
of the user's own classes that these hold. Importing this module does not import Keras.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from .attributes import bare, is_plain, names_of_keras, same
from .custom_objects import is_of_keras
from .metrics_of import all_metrics
from .model_state import leaves
from .parts import Reference

_MOST_BYTES = 1 << 20
"""Attributes that hold larger arrays are not compared."""
_MOST_HOLDERS = 10_000
_DEEPEST = 5
"""How deep objects of the user's own classes may be nested in each other."""
_OF_FIT = frozenset(
    {"stop_training", "stop_evaluating", "stop_predicting", "history", "_initial_epoch", "_eval_epoch_iterator"}
)
"""Attributes that Keras sets on a model during training."""
_OF_BUILDING = frozenset({"name", "built", "output_names"})
"""Attributes that Keras itself sets on an optimizer, a metric or a loss."""
_SHARED_NAMES = frozenset({"activity_regularizer", "optimizer", "loss", "_learning_rate"})
"""Attributes of Keras's base classes that may hold an object that callbacks change."""
_ARGUMENTS = "_fn_kwargs"
"""The attribute in which losses and metrics that call a function keep its arguments."""

Values = dict[Reference, dict[str, Any]]
"""Plain attributes, keyed by a reference to the object that has them and the attribute's name."""
OPTIMIZER: Reference = ("layer", 0, "optimizer")
"""The reference to a model's optimizer, with which those to its schedule begin."""
WEIGHT = "weight"
"""The beginning of the references to the regularizers and constraints of a model's weights."""


@dataclass
class ChangedAttributes:
    """The attributes of one object that have changed."""

    values: dict[str, Any]
    """The new values, keyed by name."""
    names: frozenset[str] = field(default_factory=frozenset)
    """The names of all attributes that a layer had after training, except Keras's own."""
    kind: str = ""
    """The name of the object's class."""


def values_of(model: Any) -> Values:
    """Return copies of the plain attributes of a model and of the objects that it consists of."""
    found: Values = {}
    for reference, holder in _holders(model):
        is_listed = _lister(_class_of(holder))
        values = {}
        for name, value in vars(holder).items():
            if is_listed(name):
                if isinstance(value, _IMMUTABLE):
                    values[name] = value
                elif is_plain(value) and _bytes(value) <= _MOST_BYTES:
                    values[name] = copy.deepcopy(bare(value))
        if values:
            found[reference] = values
    return found


def changes(model: Any, before: Values) -> dict[Reference, ChangedAttributes]:
    """Return the attributes that have changed since ``values_of`` returned ``before``, by the object's reference."""
    return between(model, before, values_of(model))


def between(model: Any, before: Values, after: Values) -> dict[Reference, ChangedAttributes]:
    """Return the attributes in which two results of ``values_of`` differ, by the object's reference."""
    found = {}
    for reference, now in after.items():
        known = before.get(reference, {})
        changed = {name: value for name, value in now.items() if name not in known or not same(known[name], value)}
        if changed:
            holder = resolved(model, reference)
            is_listed = _lister(_class_of(holder))
            names = (name for name in vars(holder) if is_listed(name) and not hasattr(type(holder), name))
            kept = frozenset(names) if _is_layer(holder) else frozenset()
            found[reference] = ChangedAttributes(changed, kept, type(holder).__name__)
    return found


def put_back(model: Any, before: Values) -> None:
    """Undo the changes since ``values_of`` returned ``before``, except that attributes are not removed."""
    for reference, changed in changes(model, before).items():
        holder = resolved(model, reference)
        for name in changed.values.keys() & before.get(reference, {}).keys():
            setattr(holder, name, before[reference][name])


def give(model: Any, changed: dict[Reference, ChangedAttributes]) -> list[str]:
    """Set attributes that were changed elsewhere. Return the names of those whose object this model does not have.

    A flag of a layer is not set if the layer lacks other attributes: it may say that these exist.
    """
    lacking = []
    for reference, attributes in changed.items():
        holder = resolved(model, reference)
        if holder is None or type(holder).__name__ != attributes.kind:
            lacking += [f"{attributes.kind}.{name}" for name in attributes.values]
            continue
        is_complete = attributes.names <= vars(holder).keys() | attributes.values.keys()
        for name, value in attributes.values.items():
            if is_complete or not isinstance(value, bool):
                setattr(holder, name, copy.deepcopy(value))
    return lacking


def names_in(model: Any, changed: dict[Reference, ChangedAttributes]) -> list[str]:
    """Return the names of changed attributes, as messages use them."""
    found = []
    for reference, attributes in changed.items():
        holder = resolved(model, reference)
        owner = holder.name if _is_layer(holder) else attributes.kind
        found += [f"{owner}.{name}" for name in attributes.values]
    return found


def resolved(model: Any, reference: Reference) -> Any:
    """Return the object that a reference denotes; None if the model has no such object."""
    start, number, *path = reference
    value = {"layer": model._flatten_layers, "metric": lambda: all_metrics(model), "loss": lambda: _losses(model)}.get(
        start, lambda: model.weights
    )()
    for step in (number, *path):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, (list, tuple)):
            value = value[step] if isinstance(step, int) and step < len(value) else None
        else:
            value = getattr(value, step, None) if isinstance(step, str) else None
        if value is None:
            return None
    return value


def _losses(model: Any) -> list[Any]:
    return list(leaves(getattr(model, "loss", None)))


def _holders(model: Any) -> Iterator[tuple[Reference, Any]]:
    """Yield the objects whose attributes are compared, each once, with a reference to it."""
    seen: set[int] = set()
    pending: list[tuple[Reference, Any, int]] = []

    def add(reference: Reference, value: Any, depth: int) -> None:
        if id(value) not in seen and len(seen) < _MOST_HOLDERS:
            seen.add(id(value))
            pending.append((reference, value, depth))

    for position, layer in enumerate(model._flatten_layers()):
        add(("layer", position), layer, 0)
    for number, metric in enumerate(all_metrics(model)):
        add(("metric", number), metric, 0)
    for number, loss in enumerate(_losses(model)):
        if _sort(_class_of(loss)) == _OBJECT:
            add(("loss", number), loss, 0)
    for number, weight in enumerate(model.weights if model.built else ()):
        for name in ("regularizer", "constraint"):
            value = getattr(weight, name)
            if value is not None and _sort(_class_of(value)) == _OBJECT:
                add((WEIGHT, number, name), value, 0)
    while pending:
        reference, holder, depth = pending.pop(0)
        yield reference, holder
        if depth < _DEEPEST:
            of_keras = names_of_keras()
            for name, value in vars(holder).items():
                sort = _sort(_class_of(value))
                if sort != _OTHER and (name not in of_keras or name in _SHARED_NAMES):
                    for path, inner in _objects((*reference, name), value, sort):
                        add(path, inner, depth + 1)


def _objects(reference: Reference, value: Any, sort: str) -> Iterator[tuple[Reference, Any]]:
    """Yield an object, or the objects in a list, a tuple or a dict."""
    if sort == _OBJECT:
        yield reference, value
        return
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inside:
        sort = _sort(_class_of(item))
        if sort != _OTHER and (isinstance(key, (str, int))):
            yield from _objects((*reference, key), item, sort)


def _class_of(value: Any) -> Any:
    return type(value)


_OBJECT, _CONTAINER, _OTHER = "object", "container", "other"
_IMMUTABLE = (str, bytes, bool, int, float, complex, type(None))


@cache
def _sort(kind: Any) -> str:
    """Return whether objects of a class have attributes to compare, contain other objects, or neither."""
    import keras

    if issubclass(kind, (list, tuple, dict)):
        return _CONTAINER
    known = (
        keras.Layer,
        keras.Loss,
        keras.Metric,
        keras.Optimizer,
        keras.constraints.Constraint,
        keras.optimizers.schedules.LearningRateSchedule,
        keras.regularizers.Regularizer,
    )
    if issubclass(kind, known):
        return _OBJECT
    others = (type, types.ModuleType, types.FunctionType, types.MethodType, keras.callbacks.Callback)
    foreign = ("keras.", "tensorflow.", "jupyter_dtf.", "builtins", "numpy", "functools", "collections")
    is_foreign = kind.__module__.startswith(foreign)
    is_own = not is_foreign and not issubclass(kind, others) and hasattr(kind, "__dict__") and _has_attributes(kind)
    return _OBJECT if is_own else _OTHER


def _has_attributes(kind: type) -> bool:
    return any("__dict__" in vars(base) for base in kind.__mro__)


@cache
def _lister(kind: Any) -> Any:
    """Return a function that returns whether an attribute with a name may be changed by the user's code."""
    import keras

    is_custom = not is_of_keras(kind)
    is_layer, of_keras = issubclass(kind, keras.Layer), names_of_keras()

    @cache
    def is_listed(name: str) -> bool:
        if name in _OF_FIT or name.startswith(("__", "_exclude_from_weight_decay")):
            return False
        if is_layer:
            return name not in of_keras and (is_custom or not name.startswith("_"))
        if name.startswith("_"):
            return name == _ARGUMENTS or (is_custom and name not in of_keras)
        return name not in _OF_BUILDING

    return is_listed


def _is_layer(holder: Any) -> bool:
    return hasattr(holder, "_flatten_layers")


def _bytes(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_bytes, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return sum(map(_bytes, value))
    return value.nbytes if isinstance(value, np.ndarray) else len(value) if isinstance(value, (str, bytes)) else 8
