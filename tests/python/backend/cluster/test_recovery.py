"""The reported cost of a loss: the repeated steps, and the time until the first new step."""

from __future__ import annotations

import pytest

from jupyter_dtf.backend.cluster.recovery import Recovery
from jupyter_dtf.schema.events import Note, Progressed
from jupyter_dtf.schema.run import Progress


def progressed(time: float, done: int, unit: str = "step") -> Progressed:
    return Progressed(time=time, progress=Progress(done=done, unit=unit))


@pytest.mark.parametrize(
    ("begins", "title"),
    [
        (1200, "Continues after step 1200: about 37 steps are repeated"),
        (1236, "Continues after step 1236: one step is repeated"),
        (1237, "Continues after step 1237"),
        (1238, "Continues after step 1238"),
    ],
)
def test_it_is_told_with_the_first_step(begins: int, title: str) -> None:
    recovery = Recovery("worker:1", 50.0, 1237)
    assert recovery.follows(progressed(51.0, 5, "byte")) is None
    assert recovery.follows(progressed(55.0, begins)) is None
    assert recovery.follows(progressed(55.5, begins)) is None
    told = recovery.follows(progressed(56.4, begins + 1))
    assert told == (title, "The first step ended 6 s after worker:1 was lost")


def test_the_chief_s_word_on_where_is_told_with_it() -> None:
    recovery = Recovery("worker:1", 50.0, 30)
    said = Note(time=54.0, level="info", title="Training continues after step 20", text="With epoch 2: /checkpoints/20")
    assert not recovery.takes(Note(time=54.0, level="info", title="Equal weights"))
    assert recovery.takes(said)
    assert recovery.follows(progressed(55.0, 20)) is None
    assert recovery.follows(progressed(56.0, 21)) == (
        "Training continues after step 20: about 10 steps are repeated",
        "With epoch 2: /checkpoints/20. The first step ended 6 s after worker:1 was lost",
    )


def test_an_attempt_that_comes_to_no_step_does_not_count() -> None:
    recovery = Recovery("worker:1", 50.0, 30)
    assert recovery.follows(progressed(55.0, 20)) is None
    assert recovery.follows(progressed(60.0, 20)) is None  # from the next attempt
    assert recovery.follows(progressed(61.0, 21)) is not None
