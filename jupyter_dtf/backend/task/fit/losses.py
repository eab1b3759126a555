"""Converts losses other than plain means over a task's examples to losses of the global batch while a step is traced.

Gradients are averaged over the tasks, weighted by their numbers of examples, which is correct for a mean over examples.
Other terms must be multiplied by a factor, where ``n_i`` is this task's number of examples and ``n`` the total:

* a sum over examples (``reduction="sum"``): ``n / n_i``
* a mean over the unmasked time steps, or a mean weighted by sample weights, where ``w_i`` is the sum of the mask or
  weights on this task and ``w`` the sum over all tasks: ``(n / n_i) * (w_i / w)``
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, reduce
from typing import Any, Protocol

import keras
import tensorflow as tf

from .limits import is_mean_over_last_dimension, refuse_of_whole_batch


class Shares(Protocol):
    """The division of a batch among tasks or replicas, as seen by one of them while a step is traced."""

    @property
    def examples(self) -> Any:
        """The number of examples in this share of the batch, a scalar."""

    def sum(self, values: tf.Tensor) -> tf.Tensor:
        """Sum a few numbers over all shares. The numbers must not depend on the weights."""


def is_plain_mean(model: Any) -> bool:
    """Return whether every loss of a built model is certainly a mean over examples, without masks.

    If the model's losses have not been built yet, the losses that were passed to ``compile`` decide.
    """
    losses = losses_of(model)
    losses = losses or [loss for loss in keras.tree.flatten(model.loss) if isinstance(loss, keras.losses.Loss)]
    if any(loss.reduction not in ("sum_over_batch_size", "mean") or ignores(loss) for loss in losses):
        return False
    return not masks(model)


def masks(model: Any) -> bool:
    """Return whether a layer of a model masks time steps."""
    return any(
        getattr(layer, "mask_zero", False) or isinstance(layer, keras.layers.Masking)
        for layer in model._flatten_layers()
    )


def ignores(loss: Any) -> bool:
    """Return whether a loss ignores the examples of some class."""
    arguments = {**vars(loss), **getattr(loss, "_fn_kwargs", {})}
    return arguments.get("ignore_class") is not None


@contextmanager
def of_global_batch(model: Any, sync: Shares) -> Iterator[None]:
    """Inside this context, make the model's losses return this task's contribution to the losses of the global
    batch.
    """
    with ExitStack() as stack:
        for loss in losses_of(model):
            stack.enter_context(_swapped(loss, "__class__", _corrected(type(loss), sync)))
        yield


@contextmanager
def counted_by_examples(model: Any, examples: Any) -> Iterator[None]:
    """Inside this context, record the losses of a model's outputs weighted by the batch's number of examples.

    Keras itself uses the batch size in the graph as the weight, but this size is unknown if batches differ.
    ``examples`` may be a function, which is then called each time that a loss is recorded.
    """
    with ExitStack() as stack:
        for metric in model._compile_loss.metrics if model._compile_loss is not None else []:
            update = partial(_update, metric.update_state, examples)
            stack.enter_context(_swapped(metric, "update_state", update))
        yield


def _update(update_state: Any, examples: Any, values: Any, sample_weight: Any = None) -> Any:
    return update_state(values, sample_weight=examples() if callable(examples) else examples)


def losses_of(model: Any) -> list[Any]:
    """Return the loss objects that a built model was compiled with, without duplicates. Functions are omitted."""
    compiled = model._compile_loss
    if compiled is None or not compiled.built:
        return []
    found = {id(entry.loss): entry.loss for entry in compiled._flat_losses if entry.loss is not None}
    return [loss for loss in found.values() if isinstance(loss, keras.losses.Loss)]


@contextmanager
def not_recorded(model: Any) -> Iterator[None]:
    """Inside this context, call the model's losses without updating their metrics."""
    with ExitStack() as stack:
        for metric in model._compile_loss.metrics if model._compile_loss is not None else []:
            stack.enter_context(_swapped(metric, "update_state", lambda *_, **__: None))
        yield


@contextmanager
def _swapped(holder: Any, name: str, value: Any) -> Iterator[None]:
    own = name in vars(holder) or name == "__class__"
    original = getattr(holder, name)
    object.__setattr__(holder, name, value)
    try:
        yield
    finally:
        if own:
            object.__setattr__(holder, name, original)
        else:
            object.__delattr__(holder, name)


def _corrected(kind: Any, sync: Shares) -> type:
    """Return a subclass of a loss class whose values account for the other tasks' shares of the batch."""
    masks: list[Any] = []
    is_mean = [False]

    def each(self: Any, y_true: Any, y_pred: Any) -> Any:
        losses = kind.call(self, y_true, y_pred)
        rank = losses.shape.rank
        refuse_of_whole_batch(self, None if rank is None else rank + 1)
        # For an output of the shape (batch,), Keras's mean over the last dimension is one number for the whole batch.
        is_mean[0] = rank == 0 and is_mean_over_last_dimension(self)
        masks.append(getattr(losses, "_keras_mask", None))  # as set for `ignore_class`
        return losses

    def call(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        masks[:] = [getattr(y_pred, "_keras_mask", None)]
        value = kind.__call__(self, y_true, y_pred, sample_weight)
        reduction = "mean" if is_mean[0] and self.reduction == "sum" else self.reduction
        factor = _factor(reduction, _both(masks), sample_weight, sync)
        return value if factor is None else value * tf.cast(factor, value.dtype)

    return type(kind.__name__, (kind,), {"__call__": call, "call": each})


def _both(masks: list[Any]) -> Any:
    """Return the conjunction of all masks, or None if there are none."""
    given = [tf.cast(mask, tf.bool) for mask in masks if mask is not None]
    return reduce(tf.logical_and, given) if given else None


def _factor(reduction: Any, mask: Any, sample_weight: Any, sync: Shares) -> tf.Tensor | None:
    if reduction == "sum":
        return _share_of_examples(sync)
    weights = None if mask is None else tf.cast(mask, tf.float32)
    if reduction == "mean_with_sample_weight" and sample_weight is not None:
        weight = tf.cast(sample_weight, tf.float32)
        if weights is not None:
            while len(weight.shape) < len(weights.shape):
                weight = weight[..., None]
            weight = weight * weights
        weights = weight
    if weights is None:
        return None
    mine = tf.reduce_sum(weights)
    examples = tf.cast(sync.examples, tf.float32)
    sums = sync.sum(tf.stack([examples, mine]))
    return tf.math.divide_no_nan(sums[0] * mine, examples * sums[1])


def _share_of_examples(sync: Shares) -> tf.Tensor:
    examples = tf.cast(sync.examples, tf.float32)
    return sync.sum(tf.stack([examples]))[0] / examples
