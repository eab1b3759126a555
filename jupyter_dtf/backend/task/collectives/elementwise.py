"""The functions that combine the arrays of two tasks element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

# TensorFlow 2.21: code must run eagerly even while a graph is being built; tf.init_scope only exits functions' graphs.
from tensorflow.python.eager.context import eager_mode

from .primitive import Array

Combine = Callable[..., Array]
"""``combine(x, y, out=None)`` for arrays of equal shape and dtype, as in NumPy. ``out`` may be ``x`` or ``y``."""

_UFUNCS: dict[str, Combine] = {"sum": np.add, "min": np.minimum, "max": np.maximum, "product": np.multiply}
_MANY = 1 << 14
"""From this number of elements on, TensorFlow is faster than NumPy for float16, although it needs a copy."""


def combine_for(op: str, dtype: np.dtype[Any]) -> Combine:
    """Return the function for ``op``: sum, min, max or product.

    NumPy 2.4 converts float16 values one by one: sums and products of 5 million values take 33 to 39 ms, but 5 to 8 ms
    in TensorFlow, with bitwise equal results. For bfloat16, NumPy is fast enough, and TensorFlow would replace
    subnormal numbers with 0.
    """
    if dtype == np.float16 and op in ("sum", "product"):
        return _half_sum if op == "sum" else _half_product
    return _UFUNCS[op]


def _half_sum(x: Array, y: Array, out: Array | None = None) -> Array:
    return np.add(x, y, out=out) if x.size < _MANY else _by_tensorflow(tf.raw_ops.AddV2, x, y, out)


def _half_product(x: Array, y: Array, out: Array | None = None) -> Array:
    return np.multiply(x, y, out=out) if x.size < _MANY else _by_tensorflow(tf.raw_ops.Mul, x, y, out)


def _by_tensorflow(op: Callable[..., tf.Tensor], x: Array, y: Array, out: Array | None) -> Array:
    with eager_mode(), tf.device("CPU:0"):
        combined: Array = op(x=x, y=y).numpy()
    if out is None:
        return combined
    out[...] = combined
    return out
