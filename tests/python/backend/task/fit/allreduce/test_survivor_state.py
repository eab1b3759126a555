"""Tests of the state from which surviving tasks agree to continue, derived from their positions."""

from __future__ import annotations

import pickle
from typing import Any

from jupyter_dtf.backend.task.collectives.primitive import Alone
from jupyter_dtf.backend.task.fit.allreduce.survivor_state import Standing, agree
from jupyter_dtf.backend.task.fit.checkpoint_state import FitState, Part
from jupyter_dtf.backend.task.fit.job import PackedCallbacks

EVERYWHERE, CHIEFS = 0, 1
PACKED = PackedCallbacks([True, False])


class Meeting(Alone):
    """A reducer whose ``all_gather`` always returns the given positions."""

    def __init__(self, said: list[Standing | None]) -> None:
        super().__init__()
        self._said: list[Any] = said

    def all_gather(self, value: Any, name: str = "") -> list[Any]:
        return self._said


def standing(name: str, step: int, *, was_chief: bool) -> Standing:
    """Return a task's position. Its callbacks hold ``name``; the chief's held "begun" at the beginning of the epoch."""
    places = (EVERYWHERE, CHIEFS) if was_chief else (EVERYWHERE,)
    return Standing(
        step=step,
        epoch=1,
        within=step,
        part=Part(seeds=[], keras_seed=None, numpy_random=None, python_random=None, callbacks=[]),
        state=FitState(seed=0, data={}, first_epoch=0, batch=None, parts=[], history={}, history_epochs=[]),
        seeds=[],
        own={place: pickle.dumps(name) for place in places},
        chiefs={place: pickle.dumps("begun") for place in (EVERYWHERE, CHIEFS)},
        was_chief=was_chief,
    )


def held(standings: list[Standing | None]) -> list[list[str]]:
    """Return the attributes that the callbacks of each task get after the agreement."""
    tasks = [f"worker:{rank}" for rank in range(len(standings))]
    parts = agree(standings[0], tasks, PACKED, Meeting(standings)).begin.state.parts
    return [[pickle.loads(data) for data in part.callbacks] for part in parts]


def test_a_chief_that_comes_back_has_what_the_chief_that_lives_has() -> None:
    # worker:1 was the chief while worker:0 was gone; worker:2 has done one more step.
    interim, other = standing("interim", 7, was_chief=True), standing("other", 8, was_chief=False)
    assert held([None, interim, other]) == [["interim", "interim"], ["interim"], ["other"]]
    assert held([None, interim])[0] == ["interim", "interim"]


def test_without_a_chief_what_it_had_when_the_epoch_began_is_what_is_known() -> None:
    other = standing("other", 8, was_chief=False)
    assert held([None, other]) == [["begun", "begun"], ["other"]]
    assert held([standing("chief", 7, was_chief=True), other]) == [["chief", "chief"], ["other"]]
