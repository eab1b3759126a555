"""Conversion of a compiled Keras model to plain data and back, including the functions and classes that it uses.

Keras's own file format uses a zip archive and looks up custom objects by name in a registry. Here the configuration
remains a dict, weights remain arrays, and custom objects are sent by value. Importing this module does not import
Keras.
"""

from __future__ import annotations

import math
import pickle
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from ....errors import InvalidInput
from . import set_later
from .custom_objects import CustomObjects, names_known
from .model_state import OTHER_WAY, ExtraState, exclude_from_decay, give_more, give_own, set_trainable, take_more
from .patched import patched


@dataclass
class PackedModel:
    """A model as plain data, for ``unpack``."""

    description: bytes
    """The pickled configuration, and the custom classes, functions and objects, keyed by their names in it."""
    weights: list[Any] = field(default_factory=list)
    """Arrays in the order of ``model.weights``; empty if the model is not built."""
    optimizer: list[Any] = field(default_factory=list)
    """Arrays in the order of ``model.optimizer.variables``; empty if the optimizer is not built."""
    more: ExtraState = field(default_factory=ExtraState)
    built: bool = False
    policies: list[str] = field(default_factory=list)
    """The names of the layers' dtype policies, in order, with an empty name for each quantized layer."""
    compiled: bool = True
    """Whether the description includes the compile arguments."""
    seeds: list[int] = field(default_factory=list)
    """The seeds of the layers' initializers, if the model is not built; configurations do not contain those that Keras
    has drawn.
    """
    attached: list[set_later.Attached] = field(default_factory=list)
    """The weights' constraints and regularizers, in the order of ``model.weights``; empty if the model is not built."""
    prints: set_later.Prints = field(default_factory=dict)
    """Fingerprints of attributes that the description does not contain."""

    def without_state(self) -> PackedModel:
        """Return the same model without its weights, which its initializers will create again."""
        more = ExtraState(own=self.more.own, layers=self.more.layers)
        return PackedModel(
            self.description, more=more, built=self.built, policies=self.policies, compiled=self.compiled
        )


def has_its_weights(model: Any) -> bool:
    """Return whether a model is built: Keras's ``build()`` only marks a subclass without a ``build()`` of its own."""
    return bool(model.built) and (bool(model.weights) or all(layer.built for layer in model._flatten_layers()))


def pack(model: Any, *, compiled: bool = True) -> PackedModel:
    """Convert a model to plain data.

    Args:
        model: A Keras model, which must be compiled if ``compiled``.
        compiled: Whether to include the compile arguments and the optimizer.

    Raises:
        InvalidInput: If the model cannot be rebuilt from its configuration.
    """
    import keras

    # Keras 3.15: sharing objects within a configuration is not public.
    from keras.src.saving.serialization_lib import ObjectSharingScope

    if not isinstance(model, keras.Model):
        what = "a compiled keras.Model" if compiled else "a keras.Model"
        raise InvalidInput(f"`model` must be {what} or a function that returns one, got {model!r:.200}")
    if compiled and not model.compiled:
        raise InvalidInput(f"`model` must be compiled, got {model.name!r}, which is not: call model.compile(...) first")
    kind = type(model)
    overrides = kind.compile is not keras.Model.compile and kind.compile_from_config is keras.Model.compile_from_config
    if compiled and overrides:
        raise InvalidInput(
            f"A model class that overrides compile() must also override compile_from_config(), got {kind.__name__}, "
            f"which does not. {OTHER_WAY}"
        )
    set_later.refuse_own_methods(model)
    is_built = has_its_weights(model)
    custom = CustomObjects(model)
    try:
        as_compiled = _compiled_as_it_is(model) if compiled else patched(model, compiled=False)
        with custom.recorded(), as_compiled, ObjectSharingScope(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            config = keras.saving.serialize_keras_object(model)
            if not compiled:
                config.pop("compile_config", None)
            if not is_built:
                config.pop("build_config", None)
        description = custom.pickled(config)
        more = take_more(model)
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(f"The model cannot be described by its configuration: {error}. {OTHER_WAY}") from error
    optimizer = model.optimizer if compiled else None
    packed = PackedModel(
        description=description,
        weights=model.get_weights() if is_built else [],
        optimizer=[v.numpy() for v in optimizer.variables] if optimizer is not None and optimizer.built else [],
        more=more,
        built=is_built,
        policies=[_policy_name(layer) for layer in model._flatten_layers()],
        compiled=compiled,
        seeds=[initializer.seed for initializer in _initializers(model)] if not is_built else [],
        attached=set_later.attached(model) if is_built else [],
        prints=set_later.prints(model),
    )
    if _shares_layers_among_parts(model) and len(unpack(packed).weights) != len(model.weights):
        raise InvalidInput(
            f"Several parts of the model share layers, which Keras would rebuild once for each part. {OTHER_WAY}"
        )
    return packed


def unpack(packed: PackedModel) -> Any:
    """Rebuild a model. It is compiled if it was packed with its compile arguments. It may not be built yet; ``restore``
    sets its weights and state.

    Raises InvalidInput if the configuration cannot be turned into a model.
    """
    import keras

    # Keras 3.15: sharing objects within a configuration is not public.
    from keras.src.saving.serialization_lib import ObjectSharingScope

    try:
        config, objects = pickle.loads(packed.description)
        compile_config = config.pop("compile_config", None)
        with names_known(objects), ObjectSharingScope(), _undrawn() if packed.weights else nullcontext():
            with _policy(packed.policies[0] if packed.policies else ""):
                model = keras.saving.deserialize_keras_object(config, safe_mode=False)
            _set_policies(model, packed.policies)
            for initializer, seed in zip(_initializers(model), packed.seeds, strict=False):
                initializer.seed = seed
            give_own(model, packed.more)
            set_trainable(model, packed.more)
            if compile_config:
                _compile(model, compile_config, packed.more)
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(f"The model could not be rebuilt from its configuration: {error}. {OTHER_WAY}") from error
    if packed.compiled and not model.compiled:
        raise InvalidInput(f"The model rebuilt from its configuration is not compiled. {OTHER_WAY}")
    return model


@contextmanager
def _undrawn() -> Iterator[None]:
    """Make Keras's random initializers return zeros, except for the first element.

    The weights will be replaced anyway (``restore``), and drawing them would take each task a second per hundred
    million weights. The first element distinguishes a copy of such a weight from a slot of zeros (``_refuse_copies``).
    """
    import keras

    # Keras 3.15: the creation of variables, which may be deferred, has no public hook.
    from keras.src.backend import Variable

    # Keras 3.15: the base class of random initializers is not exported.
    from keras.src.initializers import random_initializers

    real = Variable._initialize_with_initializer

    def first_of_zeros(shape: Sequence[int], dtype: Any = None) -> Any:
        return keras.ops.reshape(keras.ops.one_hot(0, math.prod(shape), dtype=dtype), shape)

    def initialize(self: Any, initializer: Any) -> None:
        drawn = isinstance(initializer, random_initializers.RandomInitializer)
        # An initializer with a seed generator has state of its own, which must advance as usual.
        if drawn and isinstance(initializer.seed, int) and type(initializer).__module__ == random_initializers.__name__:
            initializer = first_of_zeros
        real(self, initializer)

    with patched(Variable, _initialize_with_initializer=initialize):
        yield


def restore(model: Any, packed: PackedModel) -> list[str]:
    """Set a built model's weights, optimizer state (if it was packed with the model) and all other packed state.

    Returns the names of attributes of custom layers that differ from those of the packed model. Raises InvalidInput if
    the rebuilt model has different variables.
    """
    before = [v.numpy() for v in model.trainable_variables]
    give_own(model, packed.more)
    if packed.weights:
        assign(model.weights, packed.weights, "weights")
        set_later.attach(model, packed.attached)
        set_trainable(model, packed.more)
    if packed.optimizer:
        assign(model.optimizer.variables, packed.optimizer, "optimizer variables")
    elif packed.compiled and packed.weights and model.optimizer is not None and model.optimizer.built:
        _refuse_copies(model, before)
    if packed.weights:
        give_more(model, packed.more)
    if packed.compiled:
        exclude_from_decay(model, packed.more)
    return set_later.differing(model, packed.prints)


def _refuse_copies(model: Any, weights: list[Any]) -> None:
    """Raise InvalidInput if some of the optimizer's slots started as copies of ``weights``.

    If an optimizer is not built, Keras builds it in the first step's graph, which then assigns the initial values of
    slots in every step. The result would be wrong even in a single process.
    """
    for variable in model.optimizer.variables:
        slot = variable.numpy()
        for weight in weights:
            if slot.shape == weight.shape and (slot == weight).all() and (slot != slot.flat[0]).any():
                raise InvalidInput(
                    "`model`: an optimizer whose slots begin as copies of weights must be built before `fit`, got "
                    f"{type(model.optimizer).__name__}, not built: Keras would build it within the first step and "
                    "reset its slots in every step. Call optimizer.build(model.trainable_variables)",
                    field="model",
                )


def assign(variables: list[Any], values: list[Any], what: str) -> None:
    """Assign arrays to Keras variables. Raises InvalidInput if their shapes or dtypes do not match."""
    ours = [(tuple(v.shape), str(v.dtype)) for v in variables]
    theirs = [(tuple(v.shape), v.dtype.name) for v in values]
    if ours != theirs:
        differ = [pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]][:3]
        raise InvalidInput(
            f"The rebuilt model must have the same {what} as the one passed, got {len(ours)} instead of {len(theirs)}; "
            f"different shapes or dtypes: {differ}. {OTHER_WAY}"
        )
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def batch_spec(batch: Any) -> Any:
    """Return a batch's structure with the shape and dtype name of each TensorSpec, and None for any other leaf."""
    return _map(lambda leaf: _Leaf(tuple(leaf.shape), leaf.dtype.name) if hasattr(leaf, "shape") else None, batch)


def build(model: Any, spec: Any) -> None:
    """Create all variables of a model, its metrics and its optimizer for batches like ``spec`` (see ``batch_spec``).

    Raises whatever Keras raises if the model does not fit the data.
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
    """A placeholder for a tensor in a batch, with the attributes that Keras needs to build a model."""

    shape: tuple[int | None, ...]
    dtype: str


def _map(function: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _map(function, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(_map(function, item) for item in value)
    return function(value)


def _shares_layers_among_parts(model: Any) -> bool:
    """Return whether several parts of a model share a layer, which Keras's configurations may not preserve."""
    found: set[int] = set()
    for part in model._flatten_layers():
        for layer in part._layers:
            if id(layer) in found and layer.weights:
                return True
            found.add(id(layer))
    return False


# -- compile arguments -------------------------------------------------------------------------------------------------


@contextmanager
def _compiled_as_it_is(model: Any) -> Iterator[None]:
    """Make the model's configuration contain its current instead of its original compile arguments within the block."""
    import keras

    # Keras 3.15: the class that configurations use for dicts of arguments is not exported.
    from keras.src.saving.serialization_lib import SerializableDict

    compiled = getattr(model, "_compile_config", None)
    if type(model).compile is not keras.Model.compile or compiled is None:
        yield
        return
    now = {
        **compiled.config,
        **_kept_from_before(model, compiled.config),
        "optimizer": model.optimizer,  # loss scaling is already applied, if requested
        "auto_scale_loss": False,
        "run_eagerly": model.run_eagerly,
        "jit_compile": model.jit_compile,
        "steps_per_execution": model.steps_per_execution,
    }
    with patched(model, _compile_config=SerializableDict(**now)):
        yield


def _initializers(model: Any) -> list[Any]:
    """Return the layers' initializers that have a seed."""
    # Keras 3.15: the base class of random initializers is not exported.
    from keras.src.initializers.random_initializers import RandomInitializer

    held = [value for layer in model._flatten_layers() for value in vars(layer).values()]
    return [value for value in held if isinstance(value, RandomInitializer) and isinstance(value.seed, int)]


def _kept_from_before(model: Any, config: dict[str, Any]) -> dict[str, Any]:
    """Return the losses and metrics of an earlier ``compile`` that the last one has left in place.

    Keras 3.15: ``compile`` without a loss, or without metrics, keeps the earlier ones, but its configuration does not.
    """
    kept: dict[str, Any] = {}
    losses, metrics = getattr(model, "_compile_loss", None), getattr(model, "_compile_metrics", None)
    if config.get("loss") is None and losses is not None:
        kept |= {"loss": losses._user_loss, "loss_weights": losses._user_loss_weights}
    if config.get("metrics") is None and config.get("weighted_metrics") is None and metrics is not None:
        kept |= {"metrics": metrics._user_metrics, "weighted_metrics": metrics._user_weighted_metrics}
    return kept


def _compile(model: Any, config: dict[str, Any], more: ExtraState) -> None:
    import keras

    if type(model).compile_from_config is not keras.Model.compile_from_config:
        model.compile_from_config(config)
        model.compiled = True
        return
    model.compile(**keras.saving.deserialize_keras_object(config, safe_mode=False))
    optimizer = model.optimizer
    if optimizer is None:
        return
    if more.slots_of is not None:
        _build_for(model, optimizer, more.slots_of)
    exclude_from_decay(model, more)
    if model.built:
        optimizer.build(model.trainable_variables)


def _build_for(model: Any, optimizer: Any, numbers: list[int]) -> None:
    """Make the optimizer build itself for the weights with these indices, regardless of which are trainable then."""

    def build(optimizer: Any, variables: Any) -> None:
        del vars(optimizer)["build"]
        weights = model.weights
        optimizer.build([weights[number] for number in numbers] if len(weights) > max(numbers) else variables)

    vars(optimizer)["build"] = types.MethodType(build, optimizer)


# -- dtype policies ----------------------------------------------------------------------------------------------------


def _policy_name(layer: Any) -> str:
    import keras

    policy = layer.dtype_policy
    if isinstance(policy, keras.dtype_policies.DTypePolicyMap) and layer.path:
        policy = policy[layer.path]  # the path will be different in the rebuilt model
    if type(policy) is not keras.DTypePolicy:
        return ""
    same = policy.compute_dtype == policy.variable_dtype
    return str(policy.compute_dtype) if same else f"mixed_{policy.compute_dtype}"


@contextmanager
def _policy(name: str) -> Iterator[None]:
    """Make ``name`` the dtype policy of layers created within the block without a policy of their own."""
    import keras

    before = keras.config.dtype_policy()
    if name:
        keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _set_policies(model: Any, names: list[str]) -> None:
    """Set the layers' original policies where their configurations do not contain them."""
    layers = model._flatten_layers()
    if len(layers) != len(names):
        return  # some layers are only created when the model is built
    for layer, name in zip(layers, names, strict=True):
        if name and _policy_name(layer) not in ("", name):
            layer.dtype_policy = name
