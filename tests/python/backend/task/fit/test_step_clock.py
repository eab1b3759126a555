"""Tests of the measured parts of steps, with a clock that the test sets."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_dtf.backend.task import time_accounts
from jupyter_dtf.backend.task.fit.step_clock import EVERY_S, StepClock, parts_of
from jupyter_dtf.backend.task.time_accounts import Totals
from jupyter_dtf.schema.metrics import (
    STEP_CHECKPOINT,
    STEP_COMPUTE,
    STEP_EXCHANGE,
    STEP_INPUT,
    STEP_PARTS,
    STEP_WAIT,
)


class Time:
    """The time and the seconds spent so far, and a ``StepClock`` that reads them."""

    def __init__(self, *, has_exchange: bool = True, has_waits: bool = True) -> None:
        self.now = 100.0
        self.spent = dict.fromkeys(("input", "exchanged", "waited", "saved"), 5.0)
        self.told: list[dict[str, float]] = []
        self.clock = StepClock(
            lambda figures: self.told.append(dict(figures)),
            has_exchange=has_exchange,
            has_waits=has_waits,
            input_s=lambda: self.spent["input"],
            totals=lambda: Totals(self.spent["exchanged"], self.spent["waited"], self.spent["saved"]),
        )

    def passes(self, seconds: float, **spent: float) -> None:
        self.now += seconds
        for name, of_it in spent.items():
            self.spent[name] += of_it

    def step(self, seconds: float, steps: int = 1, **spent: float) -> None:
        self.passes(seconds, **spent)
        self.clock.steps_done(steps, self.now)


def begun(**has: bool) -> Time:
    """Return a ``Time`` after the first step, which includes compilation."""
    time = Time(**has)
    time.clock.begin_epoch(time.now)
    time.step(30.0, input=3.0, exchanged=2.0, waited=1.0, saved=1.0)
    return time


def test_parts_are_told_once_a_second_of_all_steps_since() -> None:
    time = begun()
    for _ in range(4):
        time.step(EVERY_S / 4, input=0.05, exchanged=0.1, waited=0.04, saved=0.01)
    assert time.told == [
        {
            STEP_COMPUTE: pytest.approx(0.09),
            STEP_INPUT: pytest.approx(0.05),
            STEP_EXCHANGE: pytest.approx(0.1),
            STEP_WAIT: pytest.approx(0.04),
            STEP_CHECKPOINT: pytest.approx(0.01),
        }
    ]
    time.step(0.5, steps=5, input=0.1)
    assert len(time.told) == 1
    time.clock.end(time.now)
    assert time.told[1][STEP_INPUT] == pytest.approx(0.02)
    assert time.told[1][STEP_COMPUTE] == pytest.approx(0.08)
    time.clock.end(time.now)
    assert len(time.told) == 2, "there is nothing left to tell"


def test_what_passes_between_epochs_is_of_no_step_but_for_checkpoints() -> None:
    time = begun()
    time.step(0.5, exchanged=0.1)
    time.passes(20.0, exchanged=4.0, waited=4.0, saved=0.2)  # a validation, and a checkpoint
    time.clock.begin_epoch(time.now)
    time.step(0.5)
    assert time.told == [
        {
            STEP_COMPUTE: pytest.approx(0.45),
            STEP_INPUT: 0.0,
            STEP_EXCHANGE: pytest.approx(0.05),
            STEP_WAIT: 0.0,
            STEP_CHECKPOINT: pytest.approx(0.1),
        }
    ]
    time.step(0.2)
    time.passes(1.0, saved=0.6)
    time.clock.end(time.now)  # the checkpoint at the end of the training
    assert time.told[1][STEP_CHECKPOINT] == pytest.approx(0.6)


def test_a_training_of_one_step_tells_nothing() -> None:
    time = begun()
    time.clock.end(time.now)
    assert time.told == []


@pytest.mark.parametrize(
    ("has", "missing"),
    [
        ({"has_waits": False}, {STEP_WAIT}),
        ({"has_exchange": False}, {STEP_WAIT, STEP_EXCHANGE}),
    ],
)
def test_what_is_not_measured_is_left_out(has: dict[str, Any], missing: set[str]) -> None:
    time = begun(**has)
    time.step(2.0, input=0.5, exchanged=0.5, waited=0.25)
    assert time.told[0].keys() == STEP_PARTS.keys() - missing
    assert sum(time.told[0].values()) == pytest.approx(2.0)


def test_parts_that_overlap_are_no_more_than_the_step() -> None:
    found = parts_of(1.0, input_s=0.3, exchanged_s=0.9, waited_s=0.95, saved_s=-0.1, saved_between_s=0.0)
    assert found == {
        STEP_CHECKPOINT: 0.0,
        STEP_INPUT: 0.3,
        STEP_EXCHANGE: pytest.approx(0.7),
        STEP_WAIT: pytest.approx(0.7),
        STEP_COMPUTE: 0.0,
    }


def test_exchanges_within_and_beside_each_other_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("jupyter_dtf.backend.task.time_accounts.time.perf_counter", lambda: now[0])
    exchanging, saving = time_accounts._Exchanging(), time_accounts._Saving()
    monkeypatch.setattr(time_accounts, "exchanging", exchanging)
    with saving:
        now[0] = 1.0
        with exchanging:
            now[0] = 2.0
            with exchanging:
                now[0] = 4.0
            now[0] = 5.0
        now[0] = 7.0
    assert exchanging.seconds == 4.0
    assert saving.seconds == 3.0
