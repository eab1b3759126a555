"""Batch normalization over the global batch."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ...errors import InvalidInput
from .collectives import allreduce
from .reduce_ops import Average


class SyncBatchNormalization(keras.layers.BatchNormalization):
    """``keras.layers.BatchNormalization`` with the mean and variance over the batches of all tasks.

    The tasks' batches must have equal sizes. The layer runs a collective in every training step, and another in its
    backward pass. Masks are not supported.
    """

    def __init__(self, *args: Any, fused: bool | None = False, **kwargs: Any) -> None:
        if fused is not False:
            raise InvalidInput(f"`fused` must be False, got {fused}", field="fused")
        super().__init__(*args, **kwargs)

    def _moments(self, inputs: Any, mask: Any) -> tuple[Any, Any]:
        if mask is not None:
            raise InvalidInput("`mask` must be None, because SyncBatchNormalization does not support masks")
        mean, variance = super()._moments(inputs, mask)
        mean, square = tf.unstack(allreduce(tf.stack([mean, variance + tf.square(mean)]), op=Average))
        return mean, square - tf.square(mean)
