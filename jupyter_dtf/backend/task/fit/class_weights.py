"""``class_weight`` of data whose batches are weighed as a ``PyDataset``'s are in Keras: classes left out weigh 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import keras
import tensorflow as tf

from ....errors import InvalidInput


def weighing(class_weight: dict[int, float]) -> Callable[..., Any]:
    """A function for ``Dataset.map`` that gives a batch ``(x, y)`` the weights of its examples' classes.

    As Keras's adapter of a ``PyDataset`` does, and other than that of a ``tf.data.Dataset``, which fails at a class
    beyond those that are named. The function raises InvalidInput for weights of their own, and several outputs.
    """
    low = min(class_weight)
    known = [float(class_weight.get(number, 1)) for number in range(low, max(class_weight) + 1)]
    weights = tf.constant(known, keras.config.floatx())

    @tf.autograph.experimental.do_not_convert
    def weigh(*batch: Any) -> Any:
        if len(batch) > 2:
            raise InvalidInput(
                "class_weight must be left out where the batches have sample weights. Received both",
                field="class_weight",
            )
        if len(batch) < 2:
            return batch
        x, y = batch
        if not isinstance(y, tf.Tensor):
            raise InvalidInput(
                f"class_weight must be of a model with one output. Received: targets {y!r:.200}", field="class_weight"
            )
        place = _classes(y) - low
        is_known = (place >= 0) & (place < len(known))
        found = tf.gather(weights, tf.where(is_known, place, 0))
        return x, y, tf.where(is_known, found, tf.ones_like(found))

    return cast("Callable[..., Any]", weigh)


def _classes(y: Any) -> Any:
    """The class of each example, where it is given as a number or as a vector with its largest value there."""
    if y.shape.rank > 1:
        if y.shape[-1] != 1:
            return tf.argmax(y, -1, tf.int32)
        y = tf.squeeze(y, -1)
    return tf.cast(tf.round(y) if y.dtype.is_floating else y, tf.int32)
