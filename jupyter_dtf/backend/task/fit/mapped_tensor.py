"""Tensors of arrays that have travelled, on the arrays' own memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

_ALIGNED = 64
"""Bytes; what TensorFlow's kernels take for granted. The arrays of a payload are."""


def tensor_of(array: Any) -> tf.Tensor:
    """A tensor of an array, on the array's own memory where that can be: the tasks of a machine map one file of it.

    ``tf.convert_to_tensor`` copies, and takes three times the memory while it does.
    """
    shared = isinstance(array, np.ndarray) and array.size and array.dtype.kind in "biufc"
    if shared and array.flags.c_contiguous and array.flags.writeable and array.ctypes.data % _ALIGNED == 0:
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    return tf.convert_to_tensor(array)
