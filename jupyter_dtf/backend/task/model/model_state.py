"""Conversion of a Keras model's state, apart from its configuration, to plain data and back.

Variables are sent as arrays, in order. State that layers hold in other forms (lookup tables, results of ``adapt``) is
sent as Keras writes it to its files, with ``save_own_variables`` and ``save_assets``, but in memory. Values that layers
derive from their variables are recomputed by the receiver. Importing this module does not import Keras.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ....errors import InvalidInput
from .metrics_of import all_metrics

OTHER_WAY = "Pass a function that returns the compiled model instead"


@dataclass
class Own:
    """The data that a layer itself writes into a Keras file."""

    variables: dict[str, Any] | None = None
    """The values that ``save_own_variables`` stores."""
    assets: dict[str, bytes] = field(default_factory=dict)
    """The files that ``save_assets`` writes, keyed by path."""
    states: list[Any] = field(default_factory=list)
    """The states of a stateful recurrent layer."""
    vocabulary: list[Any] | None = None
    """The vocabulary of a lookup layer. It is not sent as Keras's file, which has one word per line, because words may
    contain line breaks.
    """
    idf_weights: Any = None


@dataclass
class ExtraState:
    """A model's state apart from its weights and the optimizer's variables."""

    seeds: list[Any] = field(default_factory=list)
    """The states of the model's random generators, in order."""
    metrics: list[Any] = field(default_factory=list)
    """The metrics' variables, in order; empty if they are not built."""
    own: dict[int, Own] = field(default_factory=dict)
    """The data that layers write themselves, keyed by the layer's index."""
    layers: int = 0
    """The number of layers, including nested ones and the model itself."""
    slots_of: list[int] | None = None
    """The indices of the weights that the optimizer was built for, if these differ from the trainable ones."""
    trainable: list[bool] = field(default_factory=list)
    """For each weight, whether it is trainable."""
    trainable_layers: list[bool] = field(default_factory=list)
    """For each layer, whether it is trainable."""
    aside: list[list[Any]] = field(default_factory=list)
    """For each layer that one of the user's classes holds but Keras does not track, its variables."""
    held: list[Any] = field(default_factory=list)
    """The values of ``held_variables``."""
    lora_alphas: list[Any] = field(default_factory=list)
    """For each layer, its LoRA alpha; None if it has none."""
    not_decayed: list[int] = field(default_factory=list)
    """The indices of the weights passed to ``exclude_from_weight_decay``."""
    not_decayed_names: str = ""
    """The regular expression for the names of weights passed to ``exclude_from_weight_decay``; empty: none."""


def take_more(model: Any) -> ExtraState:
    """Return a model's extra state. Raises whatever the user's ``save_own_variables`` raises."""
    layers = model._flatten_layers()
    optimizer = getattr(model, "optimizer", None)
    more = ExtraState(
        seeds=[variable.numpy() for variable in seed_states(model)],
        metrics=[variable.numpy() for variable in model.metrics_variables],
        own={number: own for number, layer in enumerate(layers) if (own := _own(layer)) is not None},
        layers=len(layers),
        aside=[[variable.numpy() for variable in layer.variables] for layer in layers_aside(model)],
        held=[variable.numpy() for variable in held_variables(model)],
        lora_alphas=[getattr(layer, "lora_alpha", None) for layer in layers],
        trainable=[bool(variable.trainable) for variable in model.weights],
        trainable_layers=[bool(layer.trainable) for layer in layers],
    )
    if optimizer is not None:
        _take_exclusions(more, optimizer, model.weights)
    if built_for_others(model):
        numbers = {id(variable): number for number, variable in enumerate(model.weights)}
        built_for = [numbers.get(id(variable), -1) for variable in _built_for(optimizer)]
        more.slots_of = built_for if -1 not in built_for else None
    return more


def give_own(model: Any, more: ExtraState) -> None:
    """Restore the data that layers write themselves, skipping layers that do not exist yet."""
    layers = model._flatten_layers()
    for number, own in more.own.items():
        if number < len(layers):
            _give(layers[number], own)


def give_more(model: Any, more: ExtraState) -> None:
    """Restore the remaining extra state of a model that has all its weights. Raises InvalidInput if layers differ."""
    layers = model._flatten_layers()
    if more.layers and len(layers) != more.layers:
        raise InvalidInput(
            f"The rebuilt model must have as many layers as the one passed, {more.layers}, got {len(layers)}. "
            f"{OTHER_WAY}"
        )
    _assign_if_alike(seed_states(model), more.seeds)
    _assign_if_alike(model.metrics_variables, more.metrics)
    _give_aside(layers_aside(model), more.aside)
    _assign_if_alike(held_variables(model), more.held)
    for layer, alpha in zip(layers, more.lora_alphas, strict=False):
        if alpha is not None and getattr(layer, "lora_enabled", False):
            layer.lora_alpha = alpha  # Dense and Embedding of Keras 3.15 forget it when they are rebuilt
    for layer in layers:
        _compute_anew(layer)


def set_trainable(model: Any, more: ExtraState) -> None:
    """Restore which layers and weights are trainable. Skips those that do not exist yet."""
    layers, weights = model._flatten_layers(), model.weights
    if len(layers) == len(more.trainable_layers):
        for layer, trainable in zip(layers, more.trainable_layers, strict=True):
            if layer._trainable != trainable:
                layer._trainable = trainable  # only of this layer: its variables and sublayers have their own flags
    if len(weights) == len(more.trainable):
        for variable, trainable in zip(weights, more.trainable, strict=True):
            if variable.trainable != trainable:
                variable.trainable = trainable


def built_for_others(model: Any) -> bool:
    """Return whether the optimizer was built for variables other than those that are trainable now."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None or not optimizer.built:
        return False
    return [id(v) for v in _built_for(optimizer)] != [id(v) for v in model.trainable_variables]


def holds_table(layer: Any) -> bool:
    """Return whether a layer uses a TensorFlow lookup table, which is not a variable."""
    # Keras 3.15: the base class of StringLookup and IntegerLookup is not exported.
    from keras.src.layers.preprocessing.index_lookup import IndexLookup

    return isinstance(layer, IndexLookup)


def states_of(model: Any) -> list[Any]:
    """Return all variables of a model in order, including states of stateful layers, and untracked ones."""
    held = [*model.variables, *(state for layer in model._flatten_layers() for state in _states(layer))]
    held += [variable for layer in layers_aside(model) for variable in layer.variables]
    return list({id(variable): variable for variable in held}.values())


def seed_states(model: Any) -> list[Any]:
    """Return the variables with the states of a model's random generators."""
    return [variable for variable in model.variables if is_seed(variable)]


def is_seed(variable: Any) -> bool:
    """Return whether a variable is the state of a random generator: a seed and a counter."""
    return bool(variable.name == "seed_generator_state")


def exclude_from_decay(model: Any, more: ExtraState) -> None:
    """Restore which weights the optimizer excludes from weight decay, if they exist."""
    weights = model.weights
    if (more.not_decayed or more.not_decayed_names) and max(more.not_decayed, default=-1) < len(weights):
        inner = _inner(model.optimizer)
        inner._exclude_from_weight_decay = {inner._var_key(weights[number]) for number in more.not_decayed}
        inner._exclude_from_weight_decay_pattern = (
            re.compile(more.not_decayed_names) if more.not_decayed_names else None
        )
        inner._exclude_from_weight_decay_cache = {}


def _take_exclusions(more: ExtraState, optimizer: Any, weights: list[Any]) -> None:
    inner = _inner(optimizer)
    keys = getattr(inner, "_exclude_from_weight_decay", ())
    more.not_decayed = [number for number, weight in enumerate(weights) if inner._var_key(weight) in keys]
    pattern = getattr(inner, "_exclude_from_weight_decay_pattern", None)
    more.not_decayed_names = pattern.pattern if pattern is not None else ""


# -- what layers write themselves --------------------------------------------------------------------------------------


def _own(layer: Any) -> Own | None:
    """Return the data that a layer itself writes, or None if it has only variables."""
    # Keras 3.15: the lookup layer is in a private attribute, so subclasses are recognized by their base class.
    from keras.src.layers.preprocessing.text_vectorization import TextVectorization

    if isinstance(layer, TextVectorization):  # its lookup is a separate layer
        return None
    vocabulary = _vocabulary(layer)
    if vocabulary is not None:
        return vocabulary
    own = Own(states=[state.numpy() for state in _states(layer)])
    if _has_variables_of_its_own(layer):
        store: dict[str, Any] = {}
        layer.save_own_variables(store)
        own.variables = {key: _array(value) for key, value in store.items()}
    if hasattr(layer, "save_assets") and hasattr(layer, "load_assets"):
        with tempfile.TemporaryDirectory() as directory:
            layer.save_assets(directory)
            own.assets = dict(_files(Path(directory)))
    return own if own.variables is not None or own.assets or own.states else None


def _give(layer: Any, own: Own) -> None:
    if own.vocabulary is not None:
        if _vocabulary(layer) != own:
            layer.set_vocabulary(_typed(own.vocabulary, layer), own.idf_weights)
        return
    if own.variables is not None and layer.built:
        layer.load_own_variables(own.variables)
    _assign_if_alike(_states(layer), own.states)
    if own.assets:
        with tempfile.TemporaryDirectory() as directory:
            for name, content in own.assets.items():
                path = Path(directory, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            layer.load_assets(directory)


def layers_aside(model: Any) -> list[Any]:
    """Return layers that the user's classes hold but Keras does not track, such as attributes of a Sequential."""
    layers = model._flatten_layers()
    known = {id(layer) for layer in layers}
    variables = {id(variable) for variable in model.variables}
    found: list[Any] = []
    for owner in layers:
        if type(owner).__module__.startswith("keras."):
            continue
        for value in _layers_in([vars(owner)[name] for name in sorted(vars(owner))]):
            if id(value) not in known:
                known |= {id(layer) for layer in value._flatten_layers()}
                if any(id(variable) not in variables for variable in value.variables):
                    found.append(value)
    return found


def held_variables(model: Any, *, of_metrics: bool = True) -> list[Any]:
    """Return the ``tf.Variable`` objects that the user's layers, losses and, if ``of_metrics``, metrics hold. Keras
    does not track them.
    """
    import tensorflow as tf

    metrics = all_metrics(model) if of_metrics else []
    owners = [*model._flatten_layers(), *metrics, *leaves(getattr(model, "loss", None))]
    values = [value for owner in owners if hasattr(owner, "__dict__") for _, value in sorted(vars(owner).items())]
    return list({id(value): value for value in leaves(values) if isinstance(value, tf.Variable)}.values())


def leaves(value: Any) -> Iterator[Any]:
    """Yield the values in nested lists, tuples and dicts, except None and strings."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    elif value is not None and not isinstance(value, str):
        yield value


def _layers_in(value: Any) -> Iterator[Any]:
    import keras

    if isinstance(value, keras.layers.Layer):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _layers_in(item)
    elif isinstance(value, dict):
        yield from _layers_in(list(value.values()))


def _give_aside(layers: list[Any], values: list[list[Any]]) -> None:
    for layer, arrays in zip(layers, values, strict=False):
        if [tuple(variable.shape) for variable in layer.variables] != [array.shape for array in arrays]:
            raise InvalidInput(
                f"A layer held by a custom class must be rebuilt with the same variables, got {layer.name} with "
                f"different ones. {OTHER_WAY}"
            )
        _assign_if_alike(layer.variables, arrays)


def _states(layer: Any) -> list[Any]:
    import keras

    stateful = isinstance(layer, keras.layers.RNN) and layer.stateful
    return [state for state in keras.tree.flatten(layer.states) if state is not None] if stateful else []


def _vocabulary(layer: Any) -> Own | None:
    """Return the vocabulary of a lookup layer; None for other layers, and if the configuration contains it."""
    if not holds_table(layer) or layer.input_vocabulary is not None or not int(layer.lookup_table.size()):
        return None
    weights = layer.idf_weights_const.numpy().tolist() if layer.output_mode == "tf_idf" else None
    vocabulary = layer.get_vocabulary(include_special_tokens=True)
    if weights is not None and layer.pad_to_max_tokens:
        weights = weights[: len(vocabulary)]
    return Own(
        vocabulary=[word.item() if isinstance(word, np.generic) else word for word in vocabulary], idf_weights=weights
    )


def _typed(vocabulary: list[Any], layer: Any) -> Any:
    """Convert a vocabulary for ``set_vocabulary``. A NumPy string would lose a word's trailing null characters."""
    return np.array(vocabulary, dtype=object if layer.vocabulary_dtype == "string" else layer.vocabulary_dtype)


def _has_variables_of_its_own(layer: Any) -> bool:
    """Return whether a layer stores more than its variables, or processes them when loading."""
    if getattr(layer, "quantization_mode", None) is not None:
        return True
    methods = (type(layer).save_own_variables, type(layer).load_own_variables)
    return any(
        not method.__module__.startswith("keras.src.layers.") or ".preprocessing." in method.__module__
        for method in methods
    )


def _compute_anew(layer: Any) -> None:
    """Recompute the values that a Keras layer derives from its variables."""
    import keras

    if isinstance(layer, keras.layers.Normalization):
        layer.finalize_state()


def _files(directory: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            yield path.relative_to(directory).as_posix(), path.read_bytes()


def _array(value: Any) -> Any:
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def _inner(optimizer: Any) -> Any:
    return getattr(optimizer, "inner_optimizer", optimizer)


def _built_for(optimizer: Any) -> list[Any]:
    return list(_inner(optimizer)._trainable_variables)


def _assign_if_alike(variables: list[Any], values: list[Any]) -> None:
    if [tuple(v.shape) for v in variables] == [tuple(v.shape) for v in values]:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
