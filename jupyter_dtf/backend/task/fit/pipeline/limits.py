"""What a pipeline cannot train, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from .....errors import InvalidInput
from .effects import written


def refuse_unsupported(model: Any, replicas: int, is_split: bool) -> None:
    """Raise InvalidInput, saying what to change, for a model that a pipeline cannot train as one process does."""
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
    if own_step(model, "train_step") and (replicas > 1 or is_split):
        raise InvalidInput(
            "A train_step of one's own is run on whole batches by whole layers: it must have replicas=1 and no "
            f"splits, got {type(model).__name__} with replicas={replicas}{' and splits' if is_split else ''}",
            field="strategy",
        )


def own_step(model: Any, method: str) -> bool:
    """Whether the model has a ``train_step`` or ``test_step`` of its own."""
    return getattr(type(model), method) is not getattr(keras.Model, method)


def refuse_writes(microbatches: Sequence[Sequence[tf.Operation]]) -> None:
    """Raise InvalidInput if several microbatches change a variable that is no weight, each in its own turn."""
    found = written(microbatches[0]) if len(microbatches) > 1 else []
    if found:
        raise InvalidInput(
            "A layer that is called for each microbatch must keep what it changes in weights of its own (add_weight, "
            "trainable=False), or train with microbatches=1, got a metric of a layer or a tf.Variable that is changed "
            f"by {found[0].name}",
            field="model",
        )
