"""Tests of the memory of results, which is reused, but never while anything refers to it."""

from __future__ import annotations

import numpy as np

from jupyter_dtf.backend.task.collectives.results import Results


def test_memory_is_used_again_when_its_last_view_is_gone() -> None:
    results = Results()
    like = [np.zeros(1_000, "float32"), np.zeros(3, "int64")]
    first, second = results.like(like)
    assert [(a.dtype, a.shape) for a in (first, second)] == [(a.dtype, a.shape) for a in like]
    assert all(a.ctypes.data % 64 == 0 for a in (first, second))
    view = second[1:].reshape(2, 1)
    address = first.ctypes.data
    del first, second
    (other, _) = results.like(like)
    assert other.ctypes.data != address
    del view
    assert results.like(like)[0].ctypes.data == address


def test_not_everything_is_kept() -> None:
    results = Results()
    for length in range(1, 50):
        held = [results.like([np.zeros(length)]) for _ in range(3)]
    assert len(results._buffers) <= 4
    assert len({arrays[0].ctypes.data for arrays in held}) == 3
