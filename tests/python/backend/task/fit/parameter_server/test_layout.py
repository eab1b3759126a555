"""Tests of the distribution of variables over servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from jupyter_dtf.backend.task.fit.parameter_server.layout import Piece, spread

FLOAT = 4


def spread_floats(shapes: Sequence[tuple[int, ...]], servers: int, limit: int = 1 << 20) -> list[Piece]:
    return spread(shapes, [FLOAT] * len(shapes), [True] * len(shapes), servers, limit)


def test_one_server_holds_all_in_the_models_order() -> None:
    pieces = spread_floats([(2,), (5, 5), ()], servers=1)
    assert pieces == [Piece(0, 0, (2,)), Piece(1, 0, (5, 5)), Piece(2, 0, ())]


def test_the_largest_goes_first_to_the_server_that_holds_least() -> None:
    pieces = spread_floats([(10,), (100,), (60,), (50,)], servers=2)
    assert {piece.variable: piece.server for piece in pieces} == {1: 0, 2: 1, 3: 1, 0: 0}


@pytest.mark.parametrize("servers", [2, 3, 4])
def test_loads_differ_by_no_more_than_the_largest_variable(servers: int) -> None:
    shapes = [(size,) for size in (640, 128, 1280, 10, 256, 256, 64, 900)]
    held = Counter[int]()
    for piece in spread_floats(shapes, servers):
        held[piece.server] += piece.size
    assert sum(held.values()) == sum(size for (size,) in shapes)
    assert max(held.values()) - min(held[server] for server in range(servers)) <= 1280


def test_a_large_variable_is_cut_by_rows_over_all_servers() -> None:
    pieces = spread_floats([(10, 8), (3,)], servers=3, limit=100)
    cut = [piece for piece in pieces if piece.variable == 0]
    assert [(p.server, p.first, p.rows, p.shape, p.is_whole) for p in cut] == [
        (0, 0, 3, (3, 8), False),
        (1, 3, 3, (3, 8), False),
        (2, 6, 4, (4, 8), False),
    ]
    assert [(p.server, p.is_whole) for p in pieces if p.variable == 1] == [(0, True)]


@pytest.mark.parametrize(
    ("shape", "can_split", "servers"), [((10, 8), False, 2), ((10, 8), True, 1), ((1, 80), True, 2), ((), True, 2)]
)
def test_what_cannot_be_cut_stays_whole(shape: tuple[int, ...], can_split: bool, servers: int) -> None:
    (piece,) = spread([shape], [FLOAT], [can_split], servers, limit=1)
    assert piece == Piece(0, 0, shape)


def test_pieces_are_in_order_of_server_then_variable() -> None:
    pieces = spread_floats([(4,), (400, 2), (9,), (200, 2)], servers=2, limit=1000)
    assert [(p.server, p.variable) for p in pieces] == sorted((p.server, p.variable) for p in pieces)
