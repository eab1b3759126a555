"""Tests of the division of arrays: every value is in one cell of one round, whatever the lengths."""

from __future__ import annotations

import numpy as np
import pytest

from jupyter_dtf.backend.task.collectives.divided_arrays import Cells


@pytest.mark.parametrize("lengths", [[1], [16], [5, 0, 7], [100_000], [3, 70_000, 1, 0, 12_345]])
@pytest.mark.parametrize("size", [2, 3, 7])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_cells_cover_every_value_once(lengths: list[int], size: int, dtype: str) -> None:
    arrays = [np.zeros(length, dtype) for length in lengths]
    cells = Cells(arrays, size, 4096)
    for round_ in range(cells.rounds):
        for owner in range(size):
            end = 0
            for index, start, stop, offset in cells.pieces(round_, owner):
                assert offset == end, "pieces lie end to end"
                end = offset + (stop - start) * arrays[index].itemsize
                arrays[index][start:stop] += 1
            assert end <= 4096
    assert all((array == 1).all() for array in arrays)
    assert cells.pieces(cells.rounds, 0) == []


def test_a_little_is_divided_evenly() -> None:
    cells = Cells([np.zeros(64, "float32")], 2, 4096)
    assert cells.rounds == 1
    assert [cells.pieces(0, owner) for owner in range(2)] == [[(0, 0, 32, 0)], [(0, 32, 64, 0)]]
