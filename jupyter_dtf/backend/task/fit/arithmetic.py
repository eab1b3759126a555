"""Gradients as Keras gives them, dense or as rows of a table, and what is computed with either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

Gradient = Any
"""A dense tensor, ``tf.IndexedSlices``, or None for a variable that has no gradient."""


def clip_by_global_norm(gradients: Sequence[Gradient], clip_norm: Any) -> list[Gradient]:
    """Gradients scaled down together so that their global norm is at most ``clip_norm``; NaN where it is not finite.

    As in Keras, rows of ``tf.IndexedSlices`` count as they are, even where several belong to one row of the variable.
    """
    parts = [_values(g) for g in gradients if g is not None]
    norm = tf.sqrt(tf.add_n([tf.reduce_sum(tf.square(tf.cast(part, tf.float32))) for part in parts]))
    return [times(g, clip_norm / tf.maximum(norm, clip_norm) + (norm - norm)) for g in gradients]


def _values(gradient: Gradient) -> tf.Tensor:
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _with_values(gradient: Gradient, values: tf.Tensor) -> Gradient:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return values


def times(gradient: Gradient, factor: tf.Tensor) -> Gradient:
    """The product, in float32 at least: sums of many small numbers are to come."""
    if gradient is None:
        return None
    values = _values(gradient)
    values = values if values.dtype == tf.float64 else tf.cast(values, tf.float32)
    return _with_values(gradient, values * tf.cast(factor, values.dtype))


def divided(gradient: Gradient, divisor: tf.Tensor, dtype: Any) -> Gradient:
    """The quotient, in a type of its own."""
    if gradient is None:
        return None
    values = _values(gradient)
    return _with_values(gradient, tf.cast(values / tf.cast(divisor, values.dtype), dtype))


def nothing_like(gradient: Gradient) -> Gradient:
    """What a task without examples has in place of such a gradient: zeros, or no rows."""
    if isinstance(gradient, tf.IndexedSlices):
        values, indices = gradient.values, gradient.indices
        none = tf.zeros([0, *values.shape[1:]], values.dtype)
        return tf.IndexedSlices(none, tf.zeros([0], indices.dtype), gradient.dense_shape)
    return None if gradient is None else tf.zeros(gradient.shape, gradient.dtype)
