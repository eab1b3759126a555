"""Synchronous parameter servers without backup workers against one plain Keras process: the same weights."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_dtf.schema.strategy import ParameterServer

from ...gang import run_gang
from ..cases import CASES
from ..comparison import Recorded, compare, distributed, plain

pytestmark = pytest.mark.timeout(180)

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
        "subclassed, not built",
        "own train_step",
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


@pytest.fixture(scope="module")
def reference() -> dict[str, Recorded]:
    results: dict[str, Recorded] = run_gang(1, plain(ON_ONE))[0]
    return results


@pytest.fixture(scope="module")
def on_one() -> dict[str, Any]:
    results: dict[str, Any] = run_gang(3, distributed(ON_ONE, strategy=ParameterServer(sync=True)), servers=1)[0]
    return results


@pytest.fixture(scope="module")
def over_two() -> dict[str, Any]:
    """Three workers and two servers, all variables cut."""
    strategy = ParameterServer(sync=True, split_bytes=1)
    results: dict[str, Any] = run_gang(5, distributed(OVER_TWO, strategy=strategy), servers=2)[0]
    return results


@pytest.mark.parametrize("name", ON_ONE)
def test_workers_and_a_server_do_what_one_process_does(
    name: str, on_one: dict[str, Any], reference: dict[str, Recorded]
) -> None:
    compare(CASES[name], reference[name], on_one[name])


@pytest.mark.parametrize("name", OVER_TWO)
def test_more_servers_do_the_same(name: str, over_two: dict[str, Any], reference: dict[str, Recorded]) -> None:
    compare(CASES[name], reference[name], over_two[name])


def test_machines_that_share_no_memory_do_the_same(reference: dict[str, Recorded]) -> None:
    name = "masked sequences, embedding"
    strategy = ParameterServer(sync=True, split_bytes=1)
    # One run in the life of a process: the port is that of the task, and another run's has another.
    machines = ["a", "b", "b", "a"]
    results = run_gang(4, distributed({name: CASES[name]}, strategy=strategy), servers=2, machines=machines)
    compare(CASES[name], reference[name], results[0][name])
