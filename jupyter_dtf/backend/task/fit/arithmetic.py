"""Contains arithmetic on dense gradients and on gradients that consist of rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf


@dataclass(frozen=True)
class Rows:
    """The gradient of a table as rows, in which rows with the same key have not yet been added up (see ``lookups``)."""

    values: tf.Tensor
    indices: tf.Tensor
    shape: tuple[int, ...]
    """The table's shape."""
    keys: tf.Tensor | None = None
    """The key of each row: an id that is shared by the rows to be added up, or -1 for a row that stays separate. None:
    all keys are -1.
    """


Gradient = Any
"""A dense tensor; for a sparse gradient, ``Rows`` during reduction and ``tf.IndexedSlices`` otherwise; None: no
gradient.
"""


def joined(parts: Sequence[Rows]) -> Rows:
    """Concatenate the rows of several gradients of one variable."""
    first = parts[0]
    return replace(
        first,
        values=tf.concat([part.values for part in parts], 0),
        indices=tf.concat([part.indices for part in parts], 0),
        keys=None if first.keys is None else tf.concat([part.keys for part in parts], 0),
    )


def merged(rows: Rows) -> tf.IndexedSlices:
    """Return the rows in the form that an optimizer accepts. Rows with the same key are summed into one row."""
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
    """Scale gradients by a common factor so that their global norm is at most ``clip_norm``. If the norm is not finite,
    all gradients become NaN.

    As in Keras, the rows of ``tf.IndexedSlices`` count separately, even if several of them belong to the same row of
    the variable.
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
    """Return the gradient times ``factor``. A gradient that is not float64 is cast to float32, because many small
    numbers will be added up.
    """
    if gradient is None:
        return None
    values = _values(gradient)
    values = values if values.dtype == tf.float64 else tf.cast(values, tf.float32)
    return _with_values(gradient, values * tf.cast(factor, values.dtype))


def divided(gradient: Gradient, divisor: tf.Tensor, dtype: Any) -> Gradient:
    """Return the gradient divided by ``divisor``, cast to ``dtype``."""
    if gradient is None:
        return None
    values = _values(gradient)
    return _with_values(gradient, tf.cast(values / tf.cast(divisor, values.dtype), dtype))


def nothing_like(gradient: Gradient) -> Gradient:
    """Return the gradient that a task without examples contributes: zeros, or no rows."""
    if isinstance(gradient, Rows):
        indices = tf.zeros([0], gradient.indices.dtype)
        values = tf.zeros([0, *gradient.shape[1:]], gradient.values.dtype)
        return Rows(values, indices, gradient.shape, None if gradient.keys is None else indices)
    return None if gradient is None else tf.zeros(gradient.shape, gradient.dtype)
