"""Tests that synchronous parameter servers without backup workers get the same weights as one plain Keras process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from jupyter_dtf.schema.strategy import ParameterServer

from ...gang import run_gang
from ..cases import CASES
from ..comparison import Recorded, alone, compare, distributed

ON_ONE = {
    name: CASES[name]
    for name in (
        "sgd, last batch smaller than the cluster",
        "momentum and clipping",
        "adam, class weights",
        "fewer examples than tasks",
        "masked sequences, embedding",
        "masked sequences, sum",
        "several inputs and outputs",
        "weights for one of two outputs",
        "steps per epoch, the last fewer",
        "subclassed, not built",
        "own train_step",
        "logs derived from metrics",
        "steps per execution",
        "moving average of the weights",
        "run eagerly",
        "float64 weights",
        "callbacks set the learning rate",
        "early stopping",
    )
}
OVER_TWO = {
    name: CASES[name]
    for name in (
        "adam, class weights",
        "fewer examples than tasks",
        "moving average of the weights",
    )
}


GROUP = 8
"""The number of cases that one gang trains, which has to finish within its time limit."""

Trained = Callable[[str], tuple[Recorded, Any]]


@pytest.fixture(scope="module")
def on_one() -> Trained:
    """Return a function that gives a case's results in one process, and with two workers and one server."""
    names = list(ON_ONE)

    @cache
    def group(number: int) -> tuple[dict[str, Recorded], dict[str, Any]]:
        cases = {name: ON_ONE[name] for name in names[number * GROUP : (number + 1) * GROUP]}
        received = run_gang(3, distributed(cases, strategy=ParameterServer(sync=True)), servers=1)[0]
        return alone(cases), received

    def trained(name: str) -> tuple[Recorded, Any]:
        expected, received = group(names.index(name) // GROUP)
        return expected[name], received[name]

    return trained


@pytest.fixture(scope="module")
def over_two() -> dict[str, Any]:
    """Return the cases' results with three workers and two servers, with all variables split."""
    strategy = ParameterServer(sync=True, split_bytes=1)
    results: dict[str, Any] = run_gang(5, distributed(OVER_TWO, strategy=strategy), servers=2)[0]
    return results


@pytest.mark.parametrize("name", ON_ONE)
def test_workers_and_a_server_do_what_one_process_does(name: str, on_one: Trained) -> None:
    compare(CASES[name], *on_one(name))


@pytest.mark.parametrize("name", OVER_TWO)
def test_more_servers_do_the_same(name: str, over_two: dict[str, Any], on_one: Trained) -> None:
    compare(CASES[name], on_one(name)[0], over_two[name])


def test_machines_that_share_no_memory_do_the_same(on_one: Trained) -> None:
    name = "masked sequences, embedding"
    strategy = ParameterServer(sync=True, split_bytes=1)
    # One run per process, because the port belongs to the task, and another run has another port.
    machines = ["a", "b", "b", "a"]
    results = run_gang(4, distributed({name: CASES[name]}, strategy=strategy), servers=2, machines=machines)
    compare(CASES[name], on_one(name)[0], results[0][name])
