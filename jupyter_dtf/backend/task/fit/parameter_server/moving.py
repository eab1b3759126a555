"""Reads and assigns the values that a task estimates from its own examples, such as the moving statistics of
normalization layers.

These are the floating-point weights that are not trained. Integers and booleans cannot be averaged, so the chief keeps
its own values of these.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf


def take(model: Any) -> npt.NDArray[np.float64]:
    """Return a model's moving statistics, flattened and concatenated."""
    return np.concatenate([np.zeros(0), *(v.numpy().ravel().astype(np.float64) for v in _moving(model))])


def assign(model: Any, values: npt.NDArray[np.float64]) -> None:
    """Assign values, in the layout of ``take``, to a model's moving statistics."""
    start = 0
    for variable in _moving(model):
        size = int(np.prod(variable.shape))
        variable.assign(values[start : start + size].reshape(variable.shape))
        start += size


def _moving(model: Any) -> list[Any]:
    return [v for v in model.non_trainable_weights if tf.as_dtype(v.dtype).is_floating]
