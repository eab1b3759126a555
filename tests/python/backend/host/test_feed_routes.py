"""Which rows each task gets, for any partitions, batch size and number of tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jupyter_dtf.backend.host.feed_routes import Block, Router, rows_order


@given(
    blocks=st.lists(st.lists(st.integers(0, 13), min_size=1, max_size=3), max_size=6),
    batch=st.integers(1, 9),
    size=st.integers(1, 4),
    seed=st.none() | st.integers(0, 99),
    most=st.integers(1, 20),
    first=st.integers(0, 4),
)
def test_every_batch_is_cut_into_contiguous_shares(
    *, blocks: list[list[int]], batch: int, size: int, seed: int | None, most: int, first: int
) -> None:
    made: list[Block] = []
    stream: list[tuple[int, int]] = []
    number = 0
    for index, lengths in enumerate(blocks):
        partitions = tuple(range(number, number + len(lengths)))
        number += len(lengths)
        block = Block(partitions, tuple(lengths), rows_order(sum(lengths), seed, 0, index), most)
        rows = [(partition, row) for partition, n in zip(partitions, lengths, strict=True) for row in range(n)]
        stream += rows if block.order is None else [rows[place] for place in block.order]
        made.append(block)
    whole = [stream[start : start + batch] for start in range(0, len(stream), batch)]
    for rank in range(size):
        router = Router(batch, rank, size, first)
        pieces = [piece for block in made for piece in router.add(block)] + router.end()
        batches: list[list[tuple[int, int]]] = []
        is_closed = True
        for piece in pieces:
            found: list[tuple[int, int]] = [(-1, -1)] * len(piece.places)
            for partition, rows_of, chosen in piece.sources():
                for row, place in zip(rows_of, chosen, strict=True):
                    found[place] = (partition, int(row))
            for index, count in enumerate(piece.counts):
                if index or is_closed:
                    batches.append([])
                batches[-1] += found[:count]
                found = found[count:]
            is_closed = piece.is_closed
        assert batches == [each[len(each) * rank // size : len(each) * (rank + 1) // size] for each in whole[first:]]
        assert is_closed
