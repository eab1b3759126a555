"""Memory for results. It is reused once nothing refers to it any more, because new pages are expensive."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

_ALIGNMENT = 64  # bytes: TensorFlow uses memory with this alignment without a copy
_KEPT = 4


class Results:
    """Creates arrays for results: views of one buffer per call. The last few buffers are kept."""

    def __init__(self) -> None:
        self._buffers: list[npt.NDArray[np.uint8]] = []

    def like(self, arrays: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Return uninitialized one-dimensional arrays with the same lengths and dtypes."""
        starts = [0, *accumulate(-(-a.nbytes // _ALIGNMENT) * _ALIGNMENT for a in arrays)]
        buffer = self._buffer(starts[-1] + _ALIGNMENT)
        first = -buffer.ctypes.data % _ALIGNMENT
        return [
            buffer[first + start : first + start + a.nbytes].view(a.dtype)
            for start, a in zip(starts[:-1], arrays, strict=True)
        ]

    def _buffer(self, nbytes: int) -> npt.NDArray[np.uint8]:
        free = [i for i in range(len(self._buffers)) if _references(self._buffers, i) == _UNUSED]
        for i in free:
            if self._buffers[i].size == nbytes:
                return self._buffers[i]
        self._buffers = [b for i, b in enumerate(self._buffers) if i not in free][1 - _KEPT :]
        self._buffers.append(np.empty(nbytes, np.uint8))
        return self._buffers[-1]


def _references(buffers: list[npt.NDArray[np.uint8]], index: int) -> int:
    """Return the number of references to a buffer, including those of its views, even views that TensorFlow holds."""
    return sys.getrefcount(buffers[index])


_UNUSED = _references([np.empty(0, np.uint8)], 0)
"""The number of references to a buffer that only the list refers to. It depends on the Python version."""
