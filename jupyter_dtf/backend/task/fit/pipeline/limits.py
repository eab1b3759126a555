"""The limits of a pipeline, and their reasons. ``checks.py`` determines when they are checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from .....errors import InvalidInput
from ..parameter_server.slots import is_elementwise
from .effects import written
from .layer_devices import Places


def refuse_unsupported(model: Any) -> None:
    """Raise InvalidInput, with what to change, for a model that a pipeline cannot train as one process does."""
    optimizer = model.optimizer
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise InvalidInput(
            f"A pipeline must be given a model with a Keras optimizer, got optimizer={optimizer!r:.100}", field="model"
        )
    if model.run_eagerly:
        raise InvalidInput(
            "A pipeline's step is a graph, in which Python code runs once, when it is built: the model must be "
            "compiled with run_eagerly=False, got run_eagerly=True",
            field="model",
        )
    for method in ("make_train_function", "make_test_function"):
        if getattr(type(model), method) is not getattr(keras.Model, method):
            raise InvalidInput(
                f"A pipeline makes the function that trains itself: a model must not override {method}, got "
                f"{type(model).__name__}, which does. Override train_step",
                field="model",
            )


def refuse_own_step(model: Any, replicas: int, is_split: bool) -> None:
    """Raise InvalidInput for a custom ``train_step`` with several copies, or with parts of layers."""
    if own_step(model, "train_step") and (replicas > 1 or is_split):
        raise InvalidInput(
            "A train_step of one's own is run on whole batches by whole layers: it must have replicas=1 and no "
            f"splits, got {type(model).__name__} with replicas={replicas}{' and splits' if is_split else ''}",
            field="placement.splits" if is_split else "strategy",
        )


def refuse_splits(model: Any, layers: Mapping[str, Any], where: Places) -> None:
    """Raise InvalidInput for a split that cannot be trained as the whole is. ``layers``: by id."""
    for path, layer in layers.items():
        if (parts := len(where.of(path))) > 1:
            refuse_split_model(model, path)
            refuse_split(path, layer, parts)


def refuse_split_model(model: Any, path: str = "") -> None:
    """Raise InvalidInput for an optimizer under which no layer can be split."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    if not is_elementwise(optimizer):
        raise InvalidInput(
            "`model`: the optimizer must update each number by itself, without clipping by norm, to split a layer "
            f"(SGD, RMSprop, Adam and similar), got {type(optimizer).__name__}, clipnorm={optimizer.clipnorm}, "
            f"global_clipnorm={optimizer.global_clipnorm}",
            field=f"placement.splits.{path}" if path else "placement.splits",
        )


def refuse_split(path: str, layer: Any, parts: int) -> None:
    """Raise InvalidInput for a layer that cannot be split into ``parts`` parts."""
    field = f"placement.splits.{path}"
    if any(variable.constraint is not None for variable in layer.variables):
        raise InvalidInput(
            f"`placement.splits`: a split layer must not have constraints, got {path} with one", field=field
        )
    if layer.quantization_mode is not None or getattr(layer, "lora_enabled", False):
        raise InvalidInput(
            f"`placement.splits`: a split layer must not be quantized or have LoRA, got {path}", field=field
        )
    columns = min(variable.shape[-1] for variable in layer.variables)
    if columns < parts:
        raise InvalidInput(
            f"`placement.splits`: a layer must have at least one column per part, got {path} with {columns} in "
            f"{parts} parts",
            field=field,
        )


def own_step(model: Any, method: str) -> bool:
    """Return whether the model overrides ``train_step`` or ``test_step``."""
    return getattr(type(model), method) is not getattr(keras.Model, method)


def refuse_writes(microbatches: Sequence[Sequence[tf.Operation]]) -> None:
    """Raise InvalidInput if several microbatches each change a variable that is not a weight."""
    found = written(microbatches[0]) if len(microbatches) > 1 else []
    if found:
        raise InvalidInput(
            "A layer that is called for each microbatch must keep what it changes in weights of its own (add_weight, "
            "trainable=False), or train with microbatches=1, got a metric of a layer or a tf.Variable that is changed "
            f"by {found[0].name}",
            field="model",
        )
