"""N tasks against one plain Keras process: the same weights after every step, the same history."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from ..gang import run_gang
from .cases import CASES
from .comparison import Recorded, compare, distributed, plain

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def reference() -> dict[str, Recorded]:
    results: dict[str, Recorded] = run_gang(1, plain(CASES))[0]
    return results


@pytest.fixture(scope="module")
def trained() -> Callable[[int], list[dict[str, Any]]]:
    @cache
    def results(size: int) -> list[dict[str, Any]]:
        return run_gang(size, distributed({name: case for name, case in CASES.items() if size in case.sizes}))

    return results


@pytest.mark.parametrize(("name", "size"), [(name, size) for name, case in CASES.items() for size in case.sizes])
def test_tasks_do_what_one_process_does(
    name: str, size: int, trained: Callable[[int], list[dict[str, Any]]], reference: dict[str, Recorded]
) -> None:
    results = trained(size)
    case, expected, received = CASES[name], reference[name], results[0][name]
    compare(case, expected, received)
    for other in results[1:]:
        assert [level for level, *_ in other[name].notes if level != "info"] == []
        assert [point[0] for point in other[name].points] == [
            step for step, values in received.more["ctx"].points if "learning_rate" in values
        ]


@pytest.mark.parametrize(("name", "size"), [("one example in the last batch", 3), ("masked sequences, embedding", 2)])
def test_the_ring_does_the_same(name: str, size: int, reference: dict[str, Recorded]) -> None:
    results = run_gang(
        size, distributed({name: CASES[name]}, "ring")
    )  # collectives are set up once in the life of a process
    compare(CASES[name], reference[name], results[0][name])
