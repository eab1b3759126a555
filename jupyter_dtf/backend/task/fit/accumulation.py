"""Gradients of several batches, added up on a task before they travel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from .arithmetic import Gradient


class Accumulation:
    """The gradients of one optimizer and the number of examples they come from, since ``clear``."""

    def __init__(self) -> None:
        self._examples = tf.Variable(0.0, trainable=False)
        self._held: list[Any] | None = None

    def add(self, gradients: Sequence[Gradient], examples: tf.Tensor) -> None:
        """Gradients multiplied by the number of their examples; always of the same variables."""
        if self._held is None:
            with tf.init_scope():
                self._held = [_empty(gradient) for gradient in gradients]
        for held, gradient in zip(self._held, gradients, strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                values, indices = held
                values.assign(tf.concat([values, gradient.values], 0))
                indices.assign(tf.concat([indices, gradient.indices], 0))
            elif gradient is not None:
                held.assign_add(gradient)
        self._examples.assign_add(examples)

    def total(self, gradients: Sequence[Gradient]) -> tuple[list[Gradient], tf.Tensor]:
        """All that was added, and from how many examples; ``gradients`` are those added last."""
        assert self._held is not None
        totals: list[Gradient] = []
        for held, gradient in zip(self._held, gradients, strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                values, indices = held
                totals.append(tf.IndexedSlices(values.read_value(), indices.read_value(), gradient.dense_shape))
            else:
                totals.append(None if held is None else held.read_value())
        return totals, self._examples.read_value()

    def clear(self) -> None:
        for held in self._held or []:
            for variable in held if isinstance(held, tuple) else [held]:
                if variable is not None:
                    variable.assign(tf.zeros([n or 0 for n in variable.shape], variable.dtype))
        self._examples.assign(0.0)


def _empty(gradient: Gradient) -> Any:
    """A variable of zeros for a dense gradient; of no rows, and one of no indices, for IndexedSlices."""
    if gradient is None:
        return None
    if not isinstance(gradient, tf.IndexedSlices):
        return tf.Variable(tf.zeros(gradient.shape, gradient.dtype), trainable=False)
    columns = gradient.values.shape[1:]
    values = tf.zeros([0, *columns], gradient.values.dtype)
    indices = tf.zeros([0], gradient.indices.dtype)
    return (
        tf.Variable(values, trainable=False, shape=[None, *columns]),
        tf.Variable(indices, trainable=False, shape=[None]),
    )
