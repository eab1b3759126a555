"""Computes sums over the workers of a run, on one ``ps`` task."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class Meeting:
    """Computes sums of one array from each of ``size`` workers. Not thread-safe."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._arrived: dict[int, npt.NDArray[Any]] = {}
        self.held = 0
        """The number of sums computed so far."""
        self.sum: npt.NDArray[Any] = np.zeros(0)
        """The last sum. No worker can reach the next sum before all workers have requested this one."""

    def arrive(self, rank: int, array: npt.NDArray[Any]) -> int:
        """Add a worker's array to the current sum, which is complete when ``held`` exceeds the returned number."""
        meeting = self.held
        self._arrived[rank] = array
        if len(self._arrived) == self._size:
            self.sum = np.sum([self._arrived[r] for r in sorted(self._arrived)], axis=0, dtype=array.dtype)
            self._arrived = {}
            self.held += 1
        return meeting
