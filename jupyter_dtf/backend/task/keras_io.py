"""A compiled Keras model as plain data and back, with the functions and classes that it is made of.

Keras's own file format does the same through a zip archive and looks custom objects up by name in a registry. Here the
config stays a dict, the weights stay arrays, and custom objects travel by value. Importing this imports no Keras.
"""

from __future__ import annotations

import sys
import sysconfig
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import cloudpickle

from ...errors import InvalidInput

_OTHER_WAY = "Pass a function that returns the compiled model instead"


@dataclass
class PackedModel:
    """What ``unpack`` rebuilds a model from."""

    config: dict[str, Any]
    custom_objects: bytes
    """Cloudpickle of the custom classes and functions by the name that the config gives them."""
    weights: list[Any] = field(default_factory=list)
    """Arrays in the order of ``model.weights``; empty if the model is not built."""
    optimizer: list[Any] = field(default_factory=list)
    """Arrays in the order of ``model.optimizer.variables``; empty if the optimizer is not built."""
    built: bool = False


def pack(model: Any) -> PackedModel:
    """Describe a compiled model. Raises InvalidInput if it cannot be rebuilt from its configuration."""
    import keras
    from keras.src.saving.serialization_lib import ObjectSharingScope

    if not isinstance(model, keras.Model):
        raise InvalidInput(f"model is a compiled keras.Model or a function that returns one. Received: {model!r:.200}")
    if not model.compiled:
        raise InvalidInput(
            f"The model is compiled: call model.compile(...) first. Received: {model.name!r}, not compiled"
        )
    kind = type(model)
    if kind.compile is not keras.Model.compile and kind.compile_from_config is keras.Model.compile_from_config:
        raise InvalidInput(
            f"A model whose class overrides compile() also overrides compile_from_config(). Received: {kind.__name__}, "
            f"which does not. {_OTHER_WAY}"
        )
    custom = _CustomObjects(model)
    try:
        with custom.recorded(), ObjectSharingScope(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            config = keras.saving.serialize_keras_object(model)
        objects = custom.pickled()
    except Exception as error:
        raise InvalidInput(f"The model cannot be described by its configuration: {error}. {_OTHER_WAY}") from error
    optimizer = model.optimizer
    return PackedModel(
        config=config,
        custom_objects=objects,
        weights=model.get_weights() if model.built else [],
        optimizer=[v.numpy() for v in optimizer.variables] if optimizer is not None and optimizer.built else [],
        built=bool(model.built),
    )


def unpack(packed: PackedModel) -> Any:
    """A compiled model with the weights that were packed, as far as it is built yet (see ``restore``).

    Raises InvalidInput if the configuration does not lead back to a model.
    """
    import keras
    from keras.src.saving.serialization_lib import ObjectSharingScope

    try:
        custom_objects = cloudpickle.loads(packed.custom_objects)
        with keras.saving.custom_object_scope(custom_objects), ObjectSharingScope():
            model = keras.saving.deserialize_keras_object(packed.config, safe_mode=False)
    except Exception as error:
        raise InvalidInput(f"The model could not be rebuilt from its configuration: {error}. {_OTHER_WAY}") from error
    if not model.compiled:
        raise InvalidInput(f"The model rebuilt from its configuration is not compiled. {_OTHER_WAY}")
    return model


def restore(model: Any, packed: PackedModel) -> None:
    """Give a built model the weights and the optimizer state that were packed.

    Raises InvalidInput if the rebuilt model has other variables.
    """
    before = [v.numpy() for v in model.trainable_variables]
    if packed.weights:
        assign(model.weights, packed.weights, "weights")
    if packed.optimizer:
        assign(model.optimizer.variables, packed.optimizer, "optimizer variables")
    elif packed.weights and model.optimizer is not None and model.optimizer.built:
        _refuse_copies(model, before)


def _refuse_copies(model: Any, weights: list[Any]) -> None:
    """Raise InvalidInput for an optimizer of which some slots began as copies of ``weights``.

    Keras builds an optimizer that is not built in the first step's graph, where what a slot begins with is assigned in
    every step: one process would do what nobody means.
    """
    for variable in model.optimizer.variables:
        slot = variable.numpy()
        for weight in weights:
            if slot.shape == weight.shape and (slot == weight).all() and (slot != slot.flat[0]).any():
                raise InvalidInput(
                    "`model`: an optimizer whose slots begin as copies of weights must be built before `fit`, got "
                    f"{type(model.optimizer).__name__}, not built: Keras would build it within the first step, and it "
                    "would begin anew in every step. Call optimizer.build(model.trainable_variables)",
                    field="model",
                )


def assign(variables: list[Any], values: list[Any], what: str) -> None:
    """Assign arrays to Keras variables of the same shapes, one by one. Raises InvalidInput if they do not match."""
    shapes, received = [tuple(v.shape) for v in variables], [tuple(v.shape) for v in values]
    if shapes != received:
        raise InvalidInput(
            f"The rebuilt model has the same {what} as the one passed: {shapes}. Received: {received}. {_OTHER_WAY}"
        )
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def batch_spec(batch: Any) -> Any:
    """The structure of a batch with ``(shape, dtype name)`` for each leaf (a TensorSpec or None)."""
    return _map(lambda leaf: None if leaf is None else _Leaf(tuple(leaf.shape), leaf.dtype.name), batch)


def build(model: Any, spec: Any) -> None:
    """Create every variable of a model, its metrics and its optimizer for batches like ``spec`` (see ``batch_spec``).

    Raises what Keras raises when the model does not fit the data.
    """
    optimizer = model.optimizer
    builds_late = optimizer is not None and not optimizer.built and all(x.built for x in model._flatten_layers())
    model._symbolic_build(data_batch=spec)
    if optimizer is not None and not optimizer.built:
        optimizer.build(model.trainable_variables)
    if builds_late:
        _refuse_copies(model, [v.numpy() for v in model.trainable_variables])


@dataclass(frozen=True)
class _Leaf:
    """Stands for a tensor in a batch: what Keras asks of one to build a model for it."""

    shape: tuple[int | None, ...]
    dtype: str


def _map(function: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _map(function, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_map(function, item) for item in value)
    return function(value)


class _CustomObjects:
    """Finds the functions and classes of a model that a task cannot import from Keras."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._found: dict[str, Any] = {}

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """While this lasts, serializing the model records what it names, and lambdas have names."""
        from keras.src.saving import object_registration

        original = object_registration.get_registered_name

        def get_registered_name(obj: Any) -> Any:
            name = original(obj)
            self._add(name, obj)
            return name

        lambdas = []
        for function in self._functions():
            if function.__name__ == "<lambda>":
                lambdas.append(function)
                function.__name__ = f"lambda_{len(lambdas)}"
            self._add(function.__name__, function)
        object_registration.get_registered_name = get_registered_name
        try:
            yield
        finally:
            object_registration.get_registered_name = original
            for function in lambdas:
                function.__name__ = "<lambda>"

    def pickled(self) -> bytes:
        """Cloudpickle of all that was recorded, modules of the user's by value."""
        with ExitStack() as stack:
            for module in {_local_module(obj) for obj in self._found.values()} - {None}:
                cloudpickle.register_pickle_by_value(module)
                stack.callback(cloudpickle.unregister_pickle_by_value, module)
            return bytes(cloudpickle.dumps(self._found))

    def _add(self, name: str, obj: Any) -> None:
        if not (getattr(obj, "__module__", "") or "").startswith(("keras.", "tensorflow.", "builtins")):
            self._found[name] = obj

    def _functions(self) -> list[types.FunctionType]:
        """Functions that layers and ``compile`` hold directly."""
        holders = [
            # Keras wraps some methods per instance; those hold the layer itself.
            {name: value for name, value in vars(layer).items() if not hasattr(type(layer), name)}
            for layer in self._model._flatten_layers()
        ]
        config = self._model._compile_config
        if config is not None:
            holders.append(config.config)
        found: dict[int, types.FunctionType] = {}
        for holder in holders:
            _collect_functions(list(holder.values()), found)
        return list(found.values())


def _collect_functions(values: list[Any], found: dict[int, types.FunctionType]) -> None:
    for value in values:
        if isinstance(value, types.FunctionType):
            if not value.__module__.startswith(("keras.", "tensorflow.")):
                found[id(value)] = value
        elif type(value) in (list, tuple):
            _collect_functions(list(value), found)
        elif type(value) is dict:
            _collect_functions(list(value.values()), found)


def _local_module(obj: Any) -> types.ModuleType | None:
    """The object's module if it is the user's own file, which other machines lack."""
    module = sys.modules.get(getattr(obj, "__module__", "") or "")
    path = getattr(module, "__file__", None)
    if module is None or path is None or module.__name__ == "__main__" or module.__name__.startswith("jupyter_dtf"):
        return None
    installed = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
    return None if any(path.startswith(str(root)) for root in installed) else module
