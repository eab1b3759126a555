"""Derivatives in the graph, each on the device of what it is derived from, and their sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def gradients_of(
    targets: Sequence[tf.Tensor], sources: Sequence[tf.Tensor], given: Any = None, constant: Any = None
) -> list[Any]:
    """The derivatives of the sum of ``targets``, None where there is none; IndexedSlices for rows of a table.

    ``given``: those of the targets, ones where not given; a target without one (None) is left out. ``constant``: what
    is not gone through further.
    """
    given = [tf.ones_like(target) for target in targets] if given is None else given
    pairs = [(target, slope) for target, slope in zip(targets, given, strict=True) if slope is not None]
    if not pairs:
        return [None] * len(sources)
    ys, slopes = zip(*pairs, strict=True)
    return list(
        tf.compat.v1.gradients(
            list(ys), list(sources), list(slopes), colocate_gradients_with_ops=True, stop_gradients=constant
        )
    )


def total(before: Any, now: Any) -> Any:
    """The sum of two derivatives of one variable, each dense, IndexedSlices or None; of slices, all their rows."""
    if before is None or now is None:
        return now if before is None else before
    if isinstance(before, tf.IndexedSlices) and isinstance(now, tf.IndexedSlices):
        values = tf.concat([before.values, now.values], 0)
        return tf.IndexedSlices(values, tf.concat([before.indices, now.indices], 0), now.dense_shape)
    return tf.convert_to_tensor(before) + tf.convert_to_tensor(now)
