"""Computes the loss of a batch as the sum of its microbatches' parts, if this is possible.

It is possible if every loss is one of Keras's own, uses each example separately, and is a mean or a sum over examples.
Then, the derivatives of a microbatch's part can be computed from the microbatch's own outputs. A loss that combines
several examples, or uses the total of masked steps or weights, needs the outputs of all microbatches first.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

# Keras 3.15: no public function returns whether a tensor has a mask.
from keras.src import backend

from ..losses import ignores, losses_of, masks, not_recorded, of_global_batch
from .forward import Pass
from .limits import own_step

_OF_EACH_EXAMPLE = frozenset(
    {
        "binary_crossentropy",
        "binary_focal_crossentropy",
        "categorical_crossentropy",
        "categorical_focal_crossentropy",
        "cosine_similarity",
        "huber",
        "kl_divergence",
        "log_cosh",
        "mean_absolute_error",
        "mean_absolute_percentage_error",
        "mean_squared_error",
        "mean_squared_logarithmic_error",
        "poisson",
        "sparse_categorical_crossentropy",
    }
)
"""Keras losses that use each example separately. Hinge losses do not: they check whether all labels are 0 or 1."""
_KERAS = "keras.src.losses.losses"
_REDUCTIONS = ("sum_over_batch_size", "mean", "sum")


def needs_whole_batch(model: Any, passes: list[Pass]) -> str:
    """Return the reason why the loss of a built model cannot be split, or an empty string.

    ``passes``: the forward passes of the microbatches.
    """
    if type(model).compute_loss is not keras.Model.compute_loss:
        return f"{type(model).__name__} has a custom compute_loss"
    if any(backend.get_keras_mask(output) is not None for output in keras.tree.flatten(passes[0].outputs)):
        return "The outputs have masks, and the number of masked values is known only for the whole batch"
    if model._compile_loss is None:
        return ""
    losses = losses_of(model)
    if len({id(entry.loss) for entry in model._compile_loss._flat_losses if entry.loss is not None}) != len(losses):
        return "A loss is not a keras.losses.Loss"
    return next((why for why in map(_why, losses) if why), "")


def takes_turns(model: Any) -> bool:
    """Return whether forward and backward passes will alternate, judging only from the model's configuration.

    If any layer creates masks, the outputs are assumed to have masks.
    """
    if not getattr(model, "compiled", False) or own_step(model, "train_step"):
        return False
    if type(model).compute_loss is not keras.Model.compute_loss:
        return False
    losses = [keras.losses.get(loss) for loss in keras.tree.flatten(model.loss) if loss is not None]
    return not masks(model) and not any(map(_why, losses))


def _why(loss: Any) -> str:
    """Return the reason why a loss (a Keras object or a function) cannot be split, or an empty string."""
    is_loss = isinstance(loss, keras.losses.Loss)
    name = loss.name if is_loss else getattr(loss, "__name__", type(loss).__name__)
    function = getattr(loss, "fn", None) if is_loss else loss
    if not (getattr(function, "__module__", "") == _KERAS and (not is_loss or type(loss).__module__ == _KERAS)):
        return f"{name} is not one of Keras's losses, and may use several examples at once"
    arguments = getattr(loss, "_fn_kwargs", {})
    if getattr(function, "__name__", "") not in _OF_EACH_EXAMPLE or arguments.get("axis", -1) != -1:
        return f"{name} uses several examples at once"
    if is_loss and loss.reduction not in _REDUCTIONS:
        return f"{name} has reduction={loss.reduction!r}, which is not a mean or sum over examples"
    if is_loss and ignores(loss):
        return f"{name} ignores a class, and the number of remaining examples is known only for the whole batch"
    return ""


def loss_of_part(model: Any, one: Pass, y: Any, sample_weight: Any, examples: tf.Tensor) -> tf.Tensor | None:
    """Return a microbatch's part of the loss of a batch, or None if there is no loss except those that layers add.

    ``y`` and ``sample_weight`` belong to the whole batch. ``examples``: the number of examples in the batch.
    """
    if model._compile_loss is None:
        return None
    device = keras.tree.flatten(one.outputs)[0].device

    def rows(leaf: Any) -> Any:
        if leaf is None:
            return None
        mine = leaf[one.part.low : one.part.high]
        with tf.compat.v1.device(device):
            return tf.identity(mine)

    labels, weights = (keras.tree.map_structure(rows, each) for each in (y, sample_weight))
    with not_recorded(model), of_global_batch(model, _Shares(one, examples)):
        loss = model._compile_loss(labels, one.outputs, weights)
    return loss * tf.cast(one.part.share, loss.dtype)


class _Shares:
    """Implements ``losses.Shares`` for one microbatch."""

    def __init__(self, one: Pass, examples: tf.Tensor) -> None:
        self.examples = one.part.high - one.part.low
        self._all = tf.cast(examples, tf.float32)

    def sum(self, values: tf.Tensor) -> tf.Tensor:
        """Return the batch's number of examples. These losses request no other sum."""
        del values
        return self._all[tf.newaxis]
