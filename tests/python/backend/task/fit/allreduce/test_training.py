"""Tests that N tasks get the same weights after every step, and the same history, as one plain Keras process."""

from __future__ import annotations

import pytest

from .....tiers import cut
from ...gang import run_gang
from ..cases import CASES
from ..comparison import Trained, compare, distributed, selected


@pytest.fixture(scope="module")
def trained(request: pytest.FixtureRequest) -> Trained:
    return Trained(CASES, selected(request))


@pytest.mark.parametrize(
    ("name", "size"),
    cut(
        [(name, size) for name, case in CASES.items() for size in case.sizes],
        keep=[(name, 2 if 2 in case.sizes else case.sizes[0]) for name, case in CASES.items()],
    ),
)
def test_tasks_do_what_one_process_does(name: str, size: int, trained: Trained) -> None:
    expected, received = trained(name, size)
    compare(CASES[name], expected, received[0])
    for other in received[1:]:
        assert [level for level, *_ in other.notes if level != "info"] == []
        assert [point[0] for point in other.points] == [
            step for step, values in received[0].more["ctx"].points if "learning_rate" in values
        ]


@pytest.mark.parametrize(("name", "size"), [("one example in the last batch", 3), ("masked sequences, embedding", 2)])
def test_the_ring_does_the_same(name: str, size: int, trained: Trained) -> None:
    results = run_gang(size, distributed({name: CASES[name]}, "ring"))  # can be set up only once per process
    compare(CASES[name], trained(name, size)[0], results[0][name])


@pytest.mark.parametrize("name", ["one example in the last batch"])
def test_tasks_of_two_machines_do_the_same(name: str, trained: Trained) -> None:
    results = run_gang(3, distributed({name: CASES[name]}), machines=["a", "b", "a"])
    compare(CASES[name], trained(name, 3)[0], results[0][name])
