"""A few rounds, chosen so that every kind of process and most moments are there, and the rules behind all rounds.

``make chaos`` plays as many as there is time for.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from jupyter_dtf.client.session import session

from .outcomes import TABLE, promised
from .rounds import Rounds
from .schedule import ALL, STRATEGIES, TASKS, WHEN, made, round_of

CHOSEN = [
    ("allreduce", "kill", "chief", "a checkpoint"),
    ("program", "freeze", "worker", "the last step"),
    ("ps, sync", "kill", "ps", "a step"),
    ("pipeline", "kill", "warm", "a restart"),
    ("ps, async", "kill", "host", "the start"),
    ("mirrored", "stop", "run", "a restart"),
    ("program", "freeze", "warm", "the start"),
    ("allreduce", "kill", "cluster", "a step"),  # the last: its cluster ends with it
]


@pytest.fixture(scope="module")
def rounds(no_process_left_by_module: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rounds]:
    made = Rounds(tmp_path_factory.mktemp("rounds"))
    yield made
    left = made.close()
    session().close()
    assert not left


@pytest.mark.slow
@pytest.mark.module_directories
@pytest.mark.parametrize("kind", CHOSEN, ids=" ".join)
def test_a_run_ends_as_is_promised(rounds: Rounds, kind: tuple[str, str, str, str]) -> None:
    this = made(0, kind, random.Random(3))
    done = rounds.play(this)
    assert not done.wrong, f"{this}: {done.status}"


def test_a_seed_gives_everything_that_can_happen_once_and_always_the_same() -> None:
    lap = [round_of(7, number) for number in range(len(ALL))]
    assert sorted(this[1:5] for this in lap) == sorted(ALL)
    assert lap[17] == round_of(7, 17)
    assert lap[17] != round_of(8, 17)
    assert round_of(7, len(ALL))[1:5] != lap[0][1:5]


def test_there_is_a_promise_for_everything_that_can_happen() -> None:
    done = {("task" if whom in TASKS else whom, what) for _, what, whom, _ in ALL}
    assert done == set(TABLE)
    assert {when for *_, when in ALL} == set(WHEN)
    assert {strategy for strategy, *_ in ALL} == set(STRATEGIES)
    ends = {promised(made(0, kind, random.Random(0))).ends for kind in ALL}
    assert ends == {"succeeded", "stopped", "lost"}


def test_the_chosen_rounds_can_happen() -> None:
    assert set(CHOSEN) <= set(ALL)
