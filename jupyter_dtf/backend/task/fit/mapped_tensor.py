"""Tensors that share the memory of received arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

_ALIGNED = 64
"""In bytes. TensorFlow's kernels assume this alignment, and the arrays of a payload have it."""


def tensor_of(array: Any) -> tf.Tensor:
    """Return a tensor of an array, without copying if possible: the tasks of a machine map the same file.

    ``tf.convert_to_tensor`` copies, and temporarily takes three times the memory.
    """
    shared = isinstance(array, np.ndarray) and array.size and array.dtype.kind in "biufc"
    if shared and array.flags.c_contiguous and array.flags.writeable and array.ctypes.data % _ALIGNED == 0:
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    return tf.convert_to_tensor(array)
