"""Layers whose columns are split among devices: each device computes its own, and the results are concatenated."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import keras
import tensorflow as tf

from ..replaced_attributes import hooked


def split_call(layer: Any, devices: Sequence[str], parts: Any) -> AbstractContextManager[None]:
    """Return a context in which several devices compute a Dense or Embedding layer.

    The results are concatenated on the first device. ``parts(variable)`` returns the values of the parts of one of the
    layer's variables.
    """
    compute = _dense if isinstance(layer, keras.layers.Dense) else _embedding

    def call(inputs: Any, training: Any = None) -> Any:
        columns = []
        for number, device in enumerate(devices):
            with tf.compat.v1.device(device):
                columns.append(compute(layer, inputs, lambda variable: parts(variable)[number]))  # noqa: B023
        with tf.compat.v1.device(devices[0]):
            outputs = keras.ops.concatenate(columns, axis=-1)
            activation = getattr(layer, "activation", None)
            return outputs if activation is None else activation(outputs)

    return hooked(layer, call=call)


def _dense(layer: Any, inputs: Any, part: Any) -> Any:
    outputs = keras.ops.matmul(inputs, keras.ops.cast(part(layer._kernel), layer.compute_dtype))
    return outputs if layer.bias is None else outputs + keras.ops.cast(part(layer.bias), layer.compute_dtype)


def _embedding(layer: Any, inputs: Any, part: Any) -> Any:
    indices = inputs if inputs.dtype in (tf.int32, tf.int64) else keras.ops.cast(inputs, "int32")
    return keras.ops.cast(keras.ops.take(part(layer._embeddings), indices, axis=0), layer.compute_dtype)
