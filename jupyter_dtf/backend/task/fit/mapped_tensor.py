"""Creates tensors that share the memory of received arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

_ALIGNED = 64
"""The alignment in bytes that TensorFlow's kernels assume, and that the arrays of a payload have."""


def tensor_of(array: Any) -> tf.Tensor:
    """Return a tensor with the values of an array, without copying if possible, because the tasks on a machine map the
    same file.

    ``tf.convert_to_tensor`` copies, and temporarily takes three times the memory.
    """
    shared = isinstance(array, np.ndarray) and array.size and array.dtype.kind in "biufc"
    if shared and array.flags.c_contiguous and array.flags.writeable and array.ctypes.data % _ALIGNED == 0:
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    return tf.convert_to_tensor(array)
