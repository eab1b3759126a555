"""The functions, classes and objects of the caller's that a Keras configuration names, made to travel by value.

Keras's configurations have names where such an object is meant, and look the name up in a registry: two functions of
one name are one there. Here each object has a name of its own, by its identity, for as long as its model is described.
``recorded`` hands the names out, ``names_known`` resolves them. Importing this imports no Keras.
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
"""The classes of Keras's whose ``from_config`` hands the configuration to ``__init__`` as it is."""

_COMMON = ("name", "trainable", "dtype")
"""What Keras puts into the configuration of every layer, whether its ``__init__`` takes it or not."""

# Where Keras looks up the names of functions and classes of its own.
_BUILTIN_MODULES = (
    *("activations", "constraints", "initializers", "losses", "metrics", "optimizers", "regularizers", "layers"),
    "optimizers.schedules",
)


@dataclass
class Rebuilt:
    """What Keras finds for the name of one object of a custom class: makes it, with its attributes as they were."""

    kind: type
    attributes: Attributes
    given: dict[str, Any] = field(default_factory=dict)
    """What the configuration has a ``Given`` for."""

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
    """Stands in a configuration for an object that ``__init__`` is to be given as it is; Keras leaves strings alone."""


class _Name(str):
    """The name that stands for an object with no configuration of its own."""


class _Config(dict[str, Any]):
    """The configuration of ``obj``, on its way through Keras."""

    obj: Any = None
    given: dict[str, Any]


class CustomObjects:
    """Gives names to all that a task cannot import from Keras while a model is described, and pickles it.

    ``model``: a pickled function must not hold this one or a part of it, which would be another one in the task.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._names: dict[int, str] = {}
        self._objects: dict[str, Any] = {}
        self._given: list[Any] = []
        self._alive: list[Any] = []  # so that an id stays one object's

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """While this lasts, what Keras describes has names that stand for one object each."""
        import keras

        # Keras 3.15: the registry of custom objects is recorded, and has no public hook.
        from keras.src.saving import object_registration, serialization_lib

        # Keras 3.15: how functions are written into configurations is not public.
        from keras.src.utils import python_utils

        registered_name = object_registration.get_registered_name
        inner_config = serialization_lib._get_class_or_fn_config
        public_class = serialization_lib.serialize_with_public_class

        def record_object_after_serialization(obj: Any, config: dict[str, Any]) -> None:
            # Keras marks an object as shared when it comes again, in what may be a copy of what it said first.
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
                return inner_config(obj)  # but the configurations of losses and metrics may lack arguments
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
                types=types.SimpleNamespace(FunctionType=_Nothing),  # which it asks in order to tell lambdas
            ),
        ):
            yield

    def pickled(self, config: Any) -> bytes:
        """Cloudpickle of a configuration and of what its names stand for, modules of the user's by value.

        Raises InvalidInput for what cannot travel.
        """
        objects = {**self._names_of_the_users(config), **self._objects}
        with self._by_value([*objects.values(), *self._given]):
            return self._dumped((config, objects))

    # -- inside -------------------------------------------------------------------------------------------------

    def _name(self, obj: Any, meant: Any) -> str:
        """The name of ``obj``, which stands for ``meant``. The same object has the same one."""
        if id(obj) not in self._names:
            kind = obj if hasattr(obj, "__name__") else type(obj)
            name = f"{kind.__name__}@{len(self._names)}"
            self._names[id(obj)] = name
            self._objects[name] = meant
            self._alive.append(obj)
        return self._names[id(obj)]

    def _config_of(self, obj: Any) -> _Config:
        """The configuration of an object of a custom class, as its ``from_config`` takes it."""
        # Keras 3.15: serialization of custom objects has no public hook.
        from keras.src.saving import serialization_lib

        config = obj.get_config()
        if not isinstance(config, dict):
            raise TypeError(f"get_config() of {type(obj).__name__} must return a dict, got {config!r:.100}")
        given: dict[str, Any] = {}
        from_config = getattr(type(obj), "from_config", None)
        if getattr(from_config, "__qualname__", "").partition(".")[0] in _PASS_ON:
            # Nobody would look a name up on the way to __init__.
            config = {key: value for key, value in config.items() if key not in _COMMON or _takes(type(obj), key)}
            config = self._as_given(config, given)
        described = _Config(serialization_lib.serialize_dict(config))
        described.obj, described.given = obj, given
        return described

    def _as_given(self, value: Any, given: dict[str, Any]) -> Any:
        """A value of a configuration with a ``Given`` for each function and the like."""
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
        """What the caller has registered, or holds, under a name that the configuration has in it as a plain string.

        A ``get_config`` of theirs may give a name away that a ``from_config`` of theirs looks up.
        """
        # Keras 3.15: the scope of custom objects is kept there, and not public as a whole.
        from keras.src.backend.common import global_state

        # Keras 3.15: the registry of custom objects is recorded, and has no public hook.
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
        """Functions of the caller's that layers hold directly."""
        return [
            value
            for layer in self._model._flatten_layers()
            for name, value in vars(layer).items()
            # Keras wraps some methods per instance; those hold the layer itself.
            if isinstance(value, types.FunctionType)
            and not hasattr(type(layer), name)
            and not value.__module__.startswith(("keras.", "tensorflow."))
        ]


class _Nothing:
    """A class of no objects."""


@contextmanager
def names_known(objects: dict[str, Any]) -> Iterator[None]:
    """While this lasts, Keras finds what the names of a described model stand for."""
    import keras

    # Keras 3.15: how functions are written into configurations is not public.
    from keras.src.utils import python_utils

    load = python_utils.func_load

    def func_load(code: Any, *args: Any, **kwargs: Any) -> Any:
        name = code[0] if isinstance(code, (list, tuple)) else code
        return objects[name] if name in objects else load(code, *args, **kwargs)

    with keras.saving.custom_object_scope(objects), patched(python_utils, func_load=func_load):
        yield


def is_of_keras(obj: Any) -> bool:
    """Whether a task finds this class or function by its plain name, as one of Keras's or a class of Python's own."""
    if isinstance(obj, type):
        return obj.__module__.startswith("keras.") or obj.__module__ == "builtins"
    found = _keras_names(getattr(obj, "__name__", ""))
    return bool(found) and all(other is obj for other in found)


def _keras_names(name: str) -> list[Any]:
    """Keras's public functions and classes of this name."""
    # Keras 3.15: which classes are exported under which names is said nowhere else.
    from keras.src import api_export

    found = (api_export.get_symbol_from_name(f"keras.{module}.{name}") for module in _BUILTIN_MODULES)
    return [obj for obj in found if obj is not None]


def _holds_variables(obj: Any) -> bool:
    import keras

    return isinstance(obj, (keras.layers.Layer, keras.metrics.Metric, keras.optimizers.Optimizer))


def _takes(kind: type, argument: str) -> bool:
    """Whether objects of a class are made with an argument of this name."""
    parameters = inspect.signature(kind.__init__).parameters.values()  # type: ignore[misc]
    return any(found.name == argument or found.kind is inspect.Parameter.VAR_KEYWORD for found in parameters)


def _owned(model: Any) -> dict[int, str]:
    """The ids of a model, its layers, metrics, optimizer and variables, with what they are called."""
    owned = {id(layer): layer.name for layer in model._flatten_layers()}
    owned.update({id(variable): variable.path for variable in model.variables})
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        owned[id(optimizer)] = optimizer.name
        owned.update({id(variable): variable.path for variable in optimizer.variables})
    return owned


class _Pickler(cloudpickle.Pickler):
    """Refuses what belongs to the model that is described: a copy of it would be trained by nobody."""

    def __init__(self, file: io.BytesIO, owned: dict[int, str]) -> None:
        super().__init__(file, protocol=5)
        self._owned = owned

    def persistent_id(self, obj: Any) -> None:
        import keras
        import tensorflow as tf

        if id(obj) not in self._owned and isinstance(obj, (keras.Variable, tf.Variable)):
            raise InvalidInput(
                "A function or object that a model is made of must not hold a variable that is none of the model's: "
                f"a task would have one of its own, which nobody changes. Received one that holds {obj.name!r}. Make "
                "it a weight of a layer or of the model (add_weight), or its value a constant",
                field="model",
            )
        if id(obj) in self._owned:
            raise InvalidInput(
                "A function or object that a model is made of must not hold the model itself, its layers or variables, "
                f"which are others in a task. Received one that holds {self._owned[id(obj)]!r}. Make it a method of a "
                "layer or of the model's class (add_loss, compute_loss), or pass a function that returns the compiled "
                "model instead",
                field="model",
            )

    def reducer_override(self, obj: Any) -> Any:
        import keras

        if isinstance(obj, keras.losses.Loss):  # Keras would pickle it as its configuration
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
    """The object's module if it is the user's own file, which other machines lack."""
    module = sys.modules.get(getattr(obj, "__module__", "") or "")
    path = getattr(module, "__file__", None)
    if module is None or path is None or module.__name__ == "__main__" or module.__name__.startswith("jupyter_dtf"):
        return None
    return None if path.startswith(_installed()) else module


@cache
def _installed() -> tuple[str, ...]:
    """Where packages are that other machines have as well."""
    return tuple(str(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib"))
