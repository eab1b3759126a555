"""The best values of a run, from its epochs or from its points."""

from __future__ import annotations

import math

from jupyter_dtf.backend.records.best_values import MOST
from jupyter_dtf.backend.records.run_record import RunRecord
from jupyter_dtf.schema.events import AnyEvent, EpochEnded, Point, Points, RunChanged, encode_points
from jupyter_dtf.schema.run import Best, RunState

from .run_events import run_info


def record(*events: AnyEvent) -> RunRecord:
    made = RunRecord(run_info())
    for seq, event in enumerate(events):
        made.apply(seq, event)
    return made


def epoch(number: int, attempt: int = 0, **logs: float) -> EpochEnded:
    return EpochEnded(time=1.0, attempt=attempt, epoch=number, step=10 * (number + 1), logs=logs)


def test_less_of_a_loss_and_more_of_an_accuracy_is_better() -> None:
    best = record(
        epoch(0, loss=1.0, val_accuracy=0.9, lr=0.1),
        epoch(1, loss=0.5, val_accuracy=0.8, lr=0.2),
        epoch(2, loss=math.nan, val_accuracy=0.7, lr=0.3),
    ).info.best
    assert best == {
        "loss": Best(value=0.5, step=20.0, epoch=2),
        "val_accuracy": Best(value=0.9, step=10.0, epoch=1),
    }


def test_an_epoch_that_is_done_again_counts_as_it_was_then() -> None:
    again = record(epoch(0, loss=1.0), epoch(1, loss=0.1), epoch(1, 1, loss=0.8), epoch(1, loss=0.0))
    assert again.info.best == {"loss": Best(value=0.8, step=20.0, epoch=2)}


def test_a_program_without_epochs_has_the_best_of_its_points_when_it_has_ended() -> None:
    points = [Point(float(step), 1.0, {"loss": value, "x": value}) for step, value in enumerate([3.0, math.nan, 2.0])]
    of_points = Points(time=1.0, task="worker:0", first=0, count=3, data=encode_points(points))
    running = record(of_points)
    assert running.info.best == {}
    running.apply(1, RunChanged(time=2.0, state=RunState.SUCCEEDED))
    assert running.info.best == {"loss": Best(value=2.0, step=2.0)}


def test_the_losses_are_among_the_many_metrics_that_have_a_best() -> None:
    many = {f"a{n}_loss": 1.0 for n in range(MOST + 3)}
    logs = ({**many, "loss": 3.0}, {**many, "loss": 2.0, "val_loss": 4.0})
    best = record(*(EpochEnded(time=1.0, epoch=n, step=n, logs=each) for n, each in enumerate(logs))).info.best
    assert len(best) == MOST
    assert (best["loss"].value, best["val_loss"].value, best["a0_loss"].epoch) == (2.0, 4.0, 1)
