"""Tests of the division of arrays into chunks and pieces for a ring."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jupyter_dtf.backend.task.collectives.tcp.pieces import chunks


@given(st.lists(st.integers(0, 50), min_size=1, max_size=6), st.integers(2, 5), st.integers(1, 20))
def test_every_item_is_in_one_piece_of_one_chunk_in_order(sizes: list[int], tasks: int, most: int) -> None:
    cut = chunks(sizes, tasks, most)
    assert len(cut) == tasks
    pieces = [piece for chunk in cut for piece in chunk]
    assert all(0 < sum(end - first for _, first, end in piece) <= most for piece in pieces)
    items = [(array, item) for piece in pieces for array, first, end in piece for item in range(first, end)]
    assert items == [(array, item) for array, size in enumerate(sizes) for item in range(size)]
    lengths = [sum(end - first for piece in chunk for _, first, end in piece) for chunk in cut]
    assert max(lengths) - min(lengths) <= 1
