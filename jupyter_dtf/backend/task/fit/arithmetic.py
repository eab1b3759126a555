"""Gradients as Keras gives them, dense or as rows of a table, and what is computed with either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf


@dataclass(frozen=True)
class Rows:
    """The gradient of a table as rows of it, before those that belong together have been added up (see ``lookups``)."""

    values: tf.Tensor
    indices: tf.Tensor
    shape: tuple[int, ...]
    """The table's."""
    keys: tf.Tensor | None = None
    """For each row -1, or what it has in common with the rows that it is to be added to; None: -1 for all."""


Gradient = Any
"""A dense tensor, ``Rows`` while it is being reduced and ``tf.IndexedSlices`` else, or None where there is none."""


def joined(parts: Sequence[Rows]) -> Rows:
    """The rows of several gradients of one variable, one after the other."""
    first = parts[0]
    return replace(
        first,
        values=tf.concat([part.values for part in parts], 0),
        indices=tf.concat([part.indices for part in parts], 0),
        keys=None if first.keys is None else tf.concat([part.keys for part in parts], 0),
    )


def merged(rows: Rows) -> tf.IndexedSlices:
    """The rows as an optimizer gets them: those of one key are one, the sum."""
    values, indices = rows.values, rows.indices
    if rows.keys is not None:
        alone = rows.keys < 0
        keys, places = tf.unique(tf.boolean_mask(rows.keys, ~alone))
        sums = tf.math.unsorted_segment_sum(tf.boolean_mask(values, ~alone), places, tf.size(keys))
        common = tf.math.unsorted_segment_max(tf.boolean_mask(indices, ~alone), places, tf.size(keys))
        values = tf.concat([tf.boolean_mask(values, alone), sums], 0)
        indices = tf.concat([tf.boolean_mask(indices, alone), common], 0)
    return tf.IndexedSlices(values, indices, tf.constant(rows.shape, tf.int64))


def clip_by_global_norm(gradients: Sequence[Gradient], clip_norm: Any) -> list[Gradient]:
    """Gradients scaled down together so that their global norm is at most ``clip_norm``; NaN where it is not finite.

    As in Keras, rows of ``tf.IndexedSlices`` count as they are, even where several belong to one row of the variable.
    """
    parts = [_values(g) for g in gradients if g is not None]
    norm = tf.sqrt(tf.add_n([tf.reduce_sum(tf.square(tf.cast(part, tf.float32))) for part in parts]))
    return [times(g, clip_norm / tf.maximum(norm, clip_norm) + (norm - norm)) for g in gradients]


def _values(gradient: Gradient) -> tf.Tensor:
    return gradient.values if isinstance(gradient, (Rows, tf.IndexedSlices)) else gradient


def _with_values(gradient: Gradient, values: tf.Tensor) -> Gradient:
    if isinstance(gradient, Rows):
        return replace(gradient, values=values)
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
    if isinstance(gradient, Rows):
        indices = tf.zeros([0], gradient.indices.dtype)
        values = tf.zeros([0, *gradient.shape[1:]], gradient.values.dtype)
        return Rows(values, indices, gradient.shape, None if gradient.keys is None else indices)
    return None if gradient is None else tf.zeros(gradient.shape, gradient.dtype)
