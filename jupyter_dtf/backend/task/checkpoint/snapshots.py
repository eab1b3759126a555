"""What a checkpoint is to have, copied while the program waits: once, and into the same memory each time.

New memory costs more than the copy: the kernel has to find and to empty each page of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

_ALIGNMENT = 64
"""Of memory that TensorFlow reads as it is, in bytes; of what begins elsewhere it makes a copy."""


class Snapshots:
    """The arrays of one snapshot, which the next one takes the place of. Keeps as much memory as they need."""

    def __init__(self) -> None:
        self._arrays: dict[str, Any] = {}

    def take(self, variables: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        """What these hold, by key. Nobody may read the arrays of the snapshot before any more."""
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
    """What an array, a tensor or a variable holds, as an array: where that can be without a copy, the very memory, to
    be read at once.
    """
    if not hasattr(value, "numpy"):
        return np.asarray(value)
    import tensorflow as tf

    if not tf.executing_eagerly():  # a graph of TensorFlow 1 would get a constant
        return np.asarray(value.numpy())
    try:
        return np.asarray(memoryview(tf.convert_to_tensor(value)))
    except (TypeError, ValueError, BufferError):  # symbolic, or of a type that NumPy has not of its own
        return np.asarray(value.numpy())


def tensor_of(array: Any) -> Any:
    """A tensor in the memory of an array, where that can be: the array is not to change as long as the tensor lives.

    TensorFlow's conversion copies, and keeps the interpreter for itself meanwhile.
    """
    import tensorflow as tf

    try:
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    except (AttributeError, TypeError, ValueError, BufferError, tf.errors.OpError):  # of a type that it does not know
        return tf.convert_to_tensor(array)


def _aligned(shape: tuple[int, ...], dtype: Any) -> Any:
    if dtype.hasobject:
        return np.empty(shape, dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    begin = -memory.__array_interface__["data"][0] % _ALIGNMENT
    return memory[begin : begin + size].view(dtype).reshape(shape)
