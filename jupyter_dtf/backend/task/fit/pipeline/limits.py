"""The limits of a pipeline, and the reasons for them. ``checks.py`` determines when they are checked."""

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
    """Raise InvalidInput, stating the necessary change, for a model that a pipeline cannot train as one process
    does.
    """
    optimizer = model.optimizer
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise InvalidInput(
            f"A pipeline's model must have a Keras optimizer, got optimizer={optimizer!r:.100}", field="model"
        )
    if model.run_eagerly:
        raise InvalidInput(
            "The model must be compiled with run_eagerly=False, because a pipeline's step is a graph, and Python code "
            "runs only once, when the graph is built, got run_eagerly=True",
            field="model",
        )
    for method in ("make_train_function", "make_test_function"):
        if getattr(type(model), method) is not getattr(keras.Model, method):
            raise InvalidInput(
                f"A model must not override {method}, because a pipeline creates this function itself, got "
                f"{type(model).__name__}, which does. Override train_step instead",
                field="model",
            )


def refuse_own_step(model: Any, replicas: int, is_split: bool) -> None:
    """Raise InvalidInput for a custom ``train_step`` with several copies of the pipeline, or with split layers."""
    if own_step(model, "train_step") and (replicas > 1 or is_split):
        raise InvalidInput(
            "A model with a custom train_step must have replicas=1 and no splits, because the step runs on whole "
            f"batches and whole layers, got {type(model).__name__} with replicas={replicas}"
            f"{' and splits' if is_split else ''}",
            field="placement.splits" if is_split else "strategy",
        )


def refuse_splits(model: Any, layers: Mapping[str, Any], where: Places) -> None:
    """Raise InvalidInput for a split layer that cannot be trained like the whole layer. ``layers`` is keyed by id."""
    for path, layer in layers.items():
        if (parts := len(where.of(path))) > 1:
            refuse_split_model(model, path)
            refuse_split(path, layer, parts)


def refuse_split_model(model: Any, path: str = "") -> None:
    """Raise InvalidInput if the model's optimizer does not allow layers to be split."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    if not is_elementwise(optimizer):
        raise InvalidInput(
            "`model`: to split a layer, the optimizer must update each element independently, without clipping by norm "
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
            "A layer that is called for each microbatch must keep its changing values in its own weights (add_weight, "
            "trainable=False), got a metric of a layer or a tf.Variable that is changed by "
            f"{found[0].name}. Otherwise, train with microbatches=1",
            field="model",
        )
