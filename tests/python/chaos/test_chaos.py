"""A few rounds, chosen so that they cover every kind of process and most moments, and the rules behind all rounds.

``make chaos`` plays any number of rounds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_dtf.client.session import session

from .outcomes import TABLE, promised
from .rounds import Rounds
from .schedule import ALL, STRATEGIES, TASKS, WHEN, made, round_of

CHOSEN = [
    ("program", "freeze", "worker", "the last step"),
    ("program", "freeze", "warm", "the start"),
    ("program", "kill", "host", "a step"),
    ("program", "stop", "run", "a restart"),
    ("ps, async", "kill", "ps", "the start"),
    ("pipeline", "kill", "warm", "a restart"),
    ("allreduce", "kill", "chief", "a checkpoint"),
    ("allreduce", "kill", "cluster", "a step"),  # has to be last, because it ends the cluster
]


@pytest.mark.slow
@pytest.mark.usefixtures("leave_session")
def test_runs_end_as_is_promised(tmp_path: Path) -> None:
    rounds = Rounds(tmp_path)
    wrong = {}
    try:
        for kind in CHOSEN:
            done = rounds.play(made(0, kind, random.Random(3)))
            if done.wrong:
                wrong[str(done.this)] = (done.status, done.wrong)
    finally:
        left = rounds.close()
    assert not wrong
    assert not left


@pytest.fixture
def leave_session() -> Iterator[None]:
    """Close this process's session after the test, because the next test has other directories."""
    yield
    session().close()


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
