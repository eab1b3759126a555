"""Snapshots of a checkpoint's arrays. The program waits while the arrays are copied, always to the same memory.

Allocating new memory would take longer than the copy, because the kernel has to find and clear each page.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

_ALIGNMENT = 64
"""The alignment, in bytes, that memory must have for TensorFlow to use it without a copy."""


class Snapshots:
    """The arrays of one snapshot. The next snapshot overwrites them, and thus reuses their memory."""

    def __init__(self) -> None:
        self._arrays: dict[str, Any] = {}

    def take(self, variables: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        """Copy the values of ``(key, variable)`` pairs. The previous snapshot's arrays must no longer be in use."""
        before, self._arrays = self._arrays, {}
        for key, variable in variables:
            held = held_by(variable)
            array = before.pop(key, None)
            if array is None or array.shape != held.shape or array.dtype != held.dtype:
                array = _aligned(held.shape, held.dtype)
            np.copyto(array, held)
            self._arrays[key] = array
        return dict(self._arrays)


def held_by(value: Any) -> Any:
    """Return the value of an array, tensor or variable as an array, without a copy if possible.

    The array may share the value's memory, so it must be read before the value changes.
    """
    if not hasattr(value, "numpy"):
        return np.asarray(value)
    import tensorflow as tf

    if not tf.executing_eagerly():  # in a TensorFlow 1 graph, the conversion would add a constant
        return np.asarray(value.numpy())
    try:
        return np.asarray(memoryview(tf.convert_to_tensor(value)))
    except (TypeError, ValueError, BufferError):  # symbolic, or of a type that is not NumPy's own
        return np.asarray(value.numpy())


def tensor_of(array: Any) -> Any:
    """Return a tensor that shares an array's memory if possible. The array must not change while the tensor exists.

    TensorFlow's own conversion would copy the data while holding the GIL.
    """
    import tensorflow as tf

    try:
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    except (AttributeError, TypeError, ValueError, BufferError, tf.errors.OpError):  # an unsupported type
        return tf.convert_to_tensor(array)


def _aligned(shape: tuple[int, ...], dtype: Any) -> Any:
    if dtype.hasobject:
        return np.empty(shape, dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    begin = -memory.__array_interface__["data"][0] % _ALIGNMENT
    return memory[begin : begin + size].view(dtype).reshape(shape)
