"""The user's functions, classes and objects that a Keras configuration refers to by name, sent by value.

Keras looks such names up in a registry, where two functions with the same name are indistinguishable. Here, each object
gets a unique name, based on its identity, while its model is being described. ``recorded`` assigns the names;
``names_known`` resolves them. Importing this module does not import Keras.
"""

from __future__ import annotations

import copyreg
import inspect
import io
import sys
import sysconfig
import types
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import cloudpickle
import numpy as np

from ....errors import InvalidInput
from .attributes import Attributes, plain_attributes
from .patched import patched

_PASS_ON = ("Operation", "Layer", "Model", "Metric", "BaseOptimizer")
"""Keras classes whose ``from_config`` passes the configuration to ``__init__`` unchanged."""

_COMMON = ("name", "trainable", "dtype")
"""The keys that Keras adds to the configuration of every layer, even if its ``__init__`` does not accept them."""

# The modules in which Keras looks up its own functions and classes.
_BUILTIN_MODULES = (
    *("activations", "constraints", "initializers", "losses", "metrics", "optimizers", "regularizers", "layers"),
    "optimizers.schedules",
)


@dataclass
class Rebuilt:
    """The entry that Keras finds for an object of a custom class. It rebuilds the object with its attributes."""

    kind: type
    attributes: Attributes
    given: dict[str, Any] = field(default_factory=dict)
    """The objects that are replaced by placeholders (``Given``) in the configuration, keyed by placeholder."""

    def from_config(self, config: dict[str, Any]) -> Any:
        made = self.kind.from_config(self._with_given(config))  # type: ignore[attr-defined]
        self.attributes.set_on(made)
        return made

    def _with_given(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._with_given(item) for key, item in value.items()}
        if isinstance(value, list) or type(value) is tuple:
            return (tuple if isinstance(value, tuple) else list)(map(self._with_given, value))
        return self.given[value] if isinstance(value, Given) else value


class Given(str):
    """A placeholder in a configuration for an object that ``__init__`` must receive unchanged.

    It is a string because Keras leaves strings unchanged.
    """


class _Name(str):
    """The name of an object that has no configuration of its own."""


class _Config(dict[str, Any]):
    """The configuration of ``obj`` while Keras processes it."""

    obj: Any = None
    given: dict[str, Any]


class CustomObjects:
    """Names and pickles everything in the description of a model that a task cannot import from Keras.

    A pickled function must not contain ``model`` or a part of it, because the task would get a separate copy.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._names: dict[int, str] = {}
        self._objects: dict[str, Any] = {}
        self._given: list[Any] = []
        self._alive: list[Any] = []  # keeps references, so that ids are not reused

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Make Keras use unique names for objects in configurations within the block."""
        import keras

        # Keras 3.15: the registry of custom objects has no public hook.
        from keras.src.saving import object_registration, serialization_lib

        # Keras 3.15: the function that writes functions into configurations is not public.
        from keras.src.utils import python_utils

        registered_name = object_registration.get_registered_name
        inner_config = serialization_lib._get_class_or_fn_config
        public_class = serialization_lib.serialize_with_public_class

        def record_object_after_serialization(obj: Any, config: dict[str, Any]) -> None:
            # When an object recurs, Keras marks it as shared, but possibly in a copy of its first configuration.
            config["shared_object_id"] = id(obj)
            self._alive.append(obj)
            if config["module"] == "__main__":
                config["module"] = None

        def get_registered_name(obj: Any) -> Any:
            return registered_name(obj) if is_of_keras(obj) else self._name(obj, obj)

        def get_config(obj: Any) -> Any:
            if isinstance(obj, types.FunctionType):
                return get_registered_name(obj)
            if isinstance(obj, type) or not hasattr(obj, "get_config"):
                return _Name(self._name(obj, obj))
            if is_of_keras(type(obj)) and not isinstance(obj, (keras.losses.Loss, keras.metrics.Metric)):
                return inner_config(obj)  # except losses and metrics, whose configurations may lack arguments
            if not _holds_variables(obj) and self._can_be_pickled(obj):
                return _Name(self._name(obj, obj))
            return self._config_of(obj)

        def serialize_with_public_class(kind: type, config: Any = None) -> Any:
            if isinstance(config, _Name):
                return {"module": "builtins", "class_name": "function", "config": str(config), "registered_name": None}
            if not isinstance(config, _Config):
                return public_class(kind, config)
            name = self._name(config.obj, Rebuilt(kind, plain_attributes(config.obj), config.given))
            return {
                "module": kind.__module__,
                "class_name": kind.__name__,
                "config": dict(config),
                "registered_name": name,
            }

        with (
            patched(object_registration, get_registered_name=get_registered_name),
            patched(python_utils, func_dump=lambda function: (self._name(function, function), None, None)),
            patched(
                serialization_lib,
                _get_class_or_fn_config=get_config,
                serialize_with_public_class=serialize_with_public_class,
                record_object_after_serialization=record_object_after_serialization,
                types=types.SimpleNamespace(FunctionType=_Nothing),  # disables Keras's check for lambdas
            ),
        ):
            yield

    def pickled(self, config: Any) -> bytes:
        """Pickle a configuration and the objects that it names, with the user's modules by value.

        Raises InvalidInput if something cannot be sent.
        """
        objects = {**self._names_of_the_users(config), **self._objects}
        with self._by_value([*objects.values(), *self._given]):
            return self._dumped((config, objects))

    # -- inside -------------------------------------------------------------------------------------------------

    def _name(self, obj: Any, meant: Any) -> str:
        """Return the unique name of ``obj``, which tasks resolve to ``meant``. An object always has the same name."""
        if id(obj) not in self._names:
            kind = obj if hasattr(obj, "__name__") else type(obj)
            name = f"{kind.__name__}@{len(self._names)}"
            self._names[id(obj)] = name
            self._objects[name] = meant
            self._alive.append(obj)
        return self._names[id(obj)]

    def _config_of(self, obj: Any) -> _Config:
        """Return the configuration of an object of a custom class in the form that its ``from_config`` expects."""
        # Keras 3.15: serialization of custom objects has no public hook.
        from keras.src.saving import serialization_lib

        config = obj.get_config()
        if not isinstance(config, dict):
            raise TypeError(f"get_config() of {type(obj).__name__} must return a dict, got {config!r:.100}")
        given: dict[str, Any] = {}
        from_config = getattr(type(obj), "from_config", None)
        if getattr(from_config, "__qualname__", "").partition(".")[0] in _PASS_ON:
            # Keras would not resolve names on the way to __init__.
            config = {key: value for key, value in config.items() if key not in _COMMON or _takes(type(obj), key)}
            config = self._as_given(config, given)
        described = _Config(serialization_lib.serialize_dict(config))
        described.obj, described.given = obj, given
        return described

    def _as_given(self, value: Any, given: dict[str, Any]) -> Any:
        """Return a configuration value with functions and other opaque objects replaced by ``Given``."""
        if isinstance(value, dict):
            return {key: self._as_given(item, given) for key, item in value.items()}
        if isinstance(value, list) or type(value) is tuple:
            return (tuple if isinstance(value, tuple) else list)(self._as_given(item, given) for item in value)
        if isinstance(value, (types.FunctionType, type)):
            opaque = not is_of_keras(value)
        else:
            plain = isinstance(value, (str, bytes, int, float, slice, type(None), type(Ellipsis)))
            of_tensorflow = type(value).__module__.startswith(("tensorflow.", "keras."))
            opaque = isinstance(value, np.ndarray) or not (plain or of_tensorflow or hasattr(value, "get_config"))
        if not opaque:
            return value
        self._given.append(value)
        name = Given(len(given))
        given[name] = value
        return name

    def _can_be_pickled(self, obj: Any) -> bool:
        try:
            with self._by_value([obj]):
                self._dumped(obj)
        except InvalidInput:
            raise
        except Exception:
            return False
        return True

    @contextmanager
    def _by_value(self, objects: list[Any]) -> Iterator[None]:
        modules = set()
        for obj in objects:
            obj = obj.kind if isinstance(obj, Rebuilt) else obj
            modules |= {local_module(obj), local_module(type(obj))}
        with ExitStack() as stack:
            for module in modules - {None}:
                cloudpickle.register_pickle_by_value(module)
                stack.callback(cloudpickle.unregister_pickle_by_value, module)
            yield

    def _dumped(self, value: Any) -> bytes:
        file = io.BytesIO()
        _Pickler(file, _owned(self._model)).dump(value)
        return file.getvalue()

    def _names_of_the_users(self, config: Any) -> dict[str, Any]:
        """Return the user's objects, registered or held by layers, whose names occur as plain strings in the
        configuration. They are keyed by name.

        The user's own ``get_config`` may return a name that the user's own ``from_config`` looks up.
        """
        # Keras 3.15: the scope of custom objects is kept in global_state, and is not public as a whole.
        from keras.src.backend.common import global_state

        # Keras 3.15: the registry of custom objects is not public as a whole.
        from keras.src.saving import object_registration

        known: dict[str, list[Any]] = {}
        for function in self._held_functions():
            known.setdefault(function.__name__, []).append(function)
        scope = global_state.get_global_attribute("custom_objects_scope_dict", {}) or {}
        for name, obj in {**object_registration.GLOBAL_CUSTOM_OBJECTS, **scope}.items():
            known[name] = [obj]
        if not known:
            return {}
        strings = set(_strings(config))
        return {
            name: objects[0]
            for name, objects in known.items()
            if name in strings and len({id(obj) for obj in objects}) == 1 and not _keras_names(name)
        }

    def _held_functions(self) -> list[types.FunctionType]:
        """Return the user's functions that are attributes of layers."""
        return [
            value
            for layer in self._model._flatten_layers()
            for name, value in vars(layer).items()
            # Keras wraps some methods of each instance; these wrappers refer to the layer itself.
            if isinstance(value, types.FunctionType)
            and not hasattr(type(layer), name)
            and not value.__module__.startswith(("keras.", "tensorflow."))
        ]


class _Nothing:
    """A class without instances."""


@contextmanager
def names_known(objects: dict[str, Any]) -> Iterator[None]:
    """Make Keras resolve the names of a described model within the block."""
    import keras

    # Keras 3.15: the function that reads functions from configurations is not public.
    from keras.src.utils import python_utils

    load = python_utils.func_load

    def func_load(code: Any, *args: Any, **kwargs: Any) -> Any:
        name = code[0] if isinstance(code, (list, tuple)) else code
        return objects[name] if name in objects else load(code, *args, **kwargs)

    known = {**_by_own_names(objects), **objects}
    with keras.saving.custom_object_scope(known), patched(python_utils, func_load=func_load):
        yield


def _by_own_names(objects: dict[str, Any]) -> dict[str, Any]:
    """Return the custom classes keyed by the names that Keras itself gives them, as far as these are unambiguous.

    Wrappers such as ``Bidirectional`` write and read a configuration of their layer while they are rebuilt.
    """
    # Keras 3.15: the registry of custom objects has no public hook.
    from keras.src.saving import object_registration

    found: dict[str, list[Any]] = {}
    for each in objects.values():
        kind = getattr(each, "kind", each)
        if isinstance(kind, type):
            for name in {kind.__name__, object_registration.get_registered_name(kind)}:
                if kind not in (known := found.setdefault(name, [])):
                    known.append(kind)
    return {name: kinds[0] for name, kinds in found.items() if len(kinds) == 1 and not _keras_names(name)}


def is_of_keras(obj: Any) -> bool:
    """Return whether a task finds this class or function by its plain name: whether it is Keras's or built in."""
    if isinstance(obj, type):
        return obj.__module__.startswith("keras.") or obj.__module__ == "builtins"
    found = _keras_names(getattr(obj, "__name__", ""))
    return bool(found) and all(other is obj for other in found)


def _keras_names(name: str) -> list[Any]:
    """Return Keras's public functions and classes with this name."""
    # Keras 3.15: the names under which classes are exported are recorded nowhere else.
    from keras.src import api_export

    found = (api_export.get_symbol_from_name(f"keras.{module}.{name}") for module in _BUILTIN_MODULES)
    return [obj for obj in found if obj is not None]


def _holds_variables(obj: Any) -> bool:
    import keras

    return isinstance(obj, (keras.layers.Layer, keras.metrics.Metric, keras.optimizers.Optimizer))


def _takes(kind: type, argument: str) -> bool:
    """Return whether a class's ``__init__`` accepts an argument with this name."""
    parameters = inspect.signature(kind.__init__).parameters.values()  # type: ignore[misc]
    return any(found.name == argument or found.kind is inspect.Parameter.VAR_KEYWORD for found in parameters)


def _owned(model: Any) -> dict[int, str]:
    """Return the names of a model's layers, optimizer and variables, keyed by the objects' ids."""
    owned = {id(layer): layer.name for layer in model._flatten_layers()}
    owned.update({id(variable): variable.path for variable in model.variables})
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        owned[id(optimizer)] = optimizer.name
        owned.update({id(variable): variable.path for variable in optimizer.variables})
    return owned


class _Pickler(cloudpickle.Pickler):
    """A pickler that rejects parts of the model being described, because copies of them would not be trained."""

    def __init__(self, file: io.BytesIO, owned: dict[int, str]) -> None:
        super().__init__(file, protocol=5)
        self._owned = owned

    def persistent_id(self, obj: Any) -> None:
        import keras
        import tensorflow as tf

        if id(obj) not in self._owned and isinstance(obj, (keras.Variable, tf.Variable)):
            raise InvalidInput(
                "A function or object that is part of a model must not hold a variable that the model does not track, "
                f"got one that holds {obj.name!r}: each task would have a copy that is never updated. Make it a weight "
                "of a layer or of the model (add_weight), or make its value a constant",
                field="model",
            )
        if id(obj) in self._owned:
            raise InvalidInput(
                "A function or object that is part of a model must not hold the model itself, its layers or variables, "
                f"which tasks rebuild, got one that holds {self._owned[id(obj)]!r}. Make it a method of a "
                "layer or of the model's class (add_loss, compute_loss), or pass a function that returns the compiled "
                "model instead",
                field="model",
            )

    def reducer_override(self, obj: Any) -> Any:
        import keras

        if isinstance(obj, keras.losses.Loss):  # Keras would pickle only its configuration
            return copyreg.__newobj__, (type(obj),), dict(vars(obj))  # type: ignore[attr-defined]
        return super().reducer_override(obj)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings(item)


def local_module(obj: Any) -> types.ModuleType | None:
    """Return the object's module if it is one of the user's own files, which other machines lack; otherwise None."""
    module = sys.modules.get(getattr(obj, "__module__", "") or "")
    path = getattr(module, "__file__", None)
    if module is None or path is None or module.__name__ == "__main__" or module.__name__.startswith("jupyter_dtf"):
        return None
    return None if path.startswith(_installed()) else module


@cache
def _installed() -> tuple[str, ...]:
    """Return the directories of packages, which other machines have too."""
    return tuple(str(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib"))
