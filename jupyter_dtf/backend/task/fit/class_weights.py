"""Applies ``class_weight`` to batches in the same way as Keras does for a ``PyDataset``: classes that ``class_weight``
does not name have the weight 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import keras
import tensorflow as tf

from ....errors import InvalidInput


def weighing(class_weight: dict[int, float]) -> Callable[..., Any]:
    """Return a function for ``Dataset.map`` that adds the class weights of the examples to a batch ``(x, y)``.

    The function adds the same weights as Keras's adapter of a ``PyDataset``. (Keras's adapter of a ``tf.data.Dataset``
    fails for classes beyond the largest named one.) The function raises InvalidInput for batches with sample weights,
    and for targets of several outputs.
    """
    low = min(class_weight)
    known = [float(class_weight.get(number, 1)) for number in range(low, max(class_weight) + 1)]
    weights = tf.constant(known, keras.config.floatx())

    @tf.autograph.experimental.do_not_convert
    def weigh(*batch: Any) -> Any:
        if len(batch) > 2:
            raise InvalidInput(
                "`class_weight` must be None for batches with sample weights, got both", field="class_weight"
            )
        if len(batch) < 2:
            return batch
        x, y = batch
        if not isinstance(y, tf.Tensor):
            raise InvalidInput(
                f"`class_weight` must be None unless the model has one output, got targets {y!r:.200}",
                field="class_weight",
            )
        place = _classes(y) - low
        is_known = (place >= 0) & (place < len(known))
        found = tf.gather(weights, tf.where(is_known, place, 0))
        return x, y, tf.where(is_known, found, tf.ones_like(found))

    return cast("Callable[..., Any]", weigh)


def _classes(y: Any) -> Any:
    """Return the class of each example. ``y`` gives it as a number, or as the index of a vector's largest value."""
    if y.shape.rank > 1:
        if y.shape[-1] != 1:
            return tf.argmax(y, -1, tf.int32)
        y = tf.squeeze(y, -1)
    return tf.cast(tf.round(y) if y.dtype.is_floating else y, tf.int32)
