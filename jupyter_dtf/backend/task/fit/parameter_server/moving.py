"""What a task estimates from its own examples, as the moving statistics of normalization layers.

The floating-point weights that are not trained. Whole numbers and truth values cannot be averaged: the chief's stay.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf


def take(model: Any) -> npt.NDArray[np.float64]:
    """All of them, flattened, one after the other."""
    return np.concatenate([np.zeros(0), *(v.numpy().ravel().astype(np.float64) for v in _moving(model))])


def assign(model: Any, values: npt.NDArray[np.float64]) -> None:
    """Give them values as ``take`` returns them."""
    start = 0
    for variable in _moving(model):
        size = int(np.prod(variable.shape))
        variable.assign(values[start : start + size].reshape(variable.shape))
        start += size


def _moving(model: Any) -> list[Any]:
    return [v for v in model.non_trainable_weights if tf.as_dtype(v.dtype).is_floating]
