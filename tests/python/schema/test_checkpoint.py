"""Tests of when checkpoints are written, and which are kept."""

from __future__ import annotations

import math
import random
from typing import Any

import msgspec
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.checkpoint import Checkpoint, CheckpointInfo, surplus
from jupyter_dtf.schema.events import CheckpointSaved, checkpoints_of
from jupyter_dtf.schema.run import RunRequest


@pytest.mark.parametrize(
    "wrong",
    [
        *({"every_steps": value} for value in (0, -1, True, 2.0, "2")),
        *({"every_epochs": value} for value in (0, False, 1.5)),
        *({"every_seconds": value} for value in (0, -1.0, math.nan, math.inf, True, "1")),
        *({"keep": value} for value in (0, None, True, 1.0)),
        *({"best": value} for value in ("", 3, "a\0b")),
        *({"directory": value} for value in ("here", "://bucket/a", "s3://", 3, "", "/a\0")),
    ],
    ids=str,
)
def test_what_is_wrong_is_named_with_its_field(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        Checkpoint(**wrong)
    (field,) = wrong
    assert caught.value.field == field
    assert field in str(caught.value)
    assert repr(wrong[field]) in str(caught.value)


@pytest.mark.parametrize("larger", ["val_accuracy", "auc", "mean_io_u", "reward", "dice", "r2_score", "fbeta_score"])
def test_the_best_of_a_score_is_the_largest(larger: str) -> None:
    assert Checkpoint(best=larger).is_better(2.0, 1.0)
    assert not Checkpoint(best=larger).is_better(1.0, 2.0)


@pytest.mark.parametrize("smaller", ["val_loss", "mse", "categorical_hinge", "something"])
def test_the_best_of_anything_else_is_the_smallest(smaller: str) -> None:
    assert Checkpoint(best=smaller).is_better(1.0, 2.0)
    assert not Checkpoint(best=smaller).is_better(2.0, 1.0)


def test_one_is_written_after_every_epoch_unless_something_is_said() -> None:
    assert dtf.Checkpoint is Checkpoint
    assert (Checkpoint().after_epochs, Checkpoint().keep) == (1, 3)
    assert Checkpoint(every_steps=5).after_epochs is None
    assert Checkpoint(every_seconds=0.5).after_epochs is None
    assert Checkpoint(every_steps=5, every_epochs=2).after_epochs == 2


@pytest.mark.parametrize("chosen", [None, True, False, Checkpoint(every_steps=7, best="val_loss", directory="/a")])
def test_it_travels_with_a_request(chosen: Any) -> None:
    request = RunRequest(checkpoint=chosen)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(request), type=RunRequest).checkpoint == chosen


def test_the_newest_and_the_best_are_kept() -> None:
    values = {10: 0.5, 20: 0.2, 30: None, 40: math.nan, 50: 0.4, 60: None}
    known = [CheckpointInfo(step=step, epoch=0, metric=value) for step, value in values.items()]

    def kept(policy: Checkpoint) -> list[int]:
        gone = {info.step for info in surplus(known, policy)}
        return [step for step in values if step not in gone]

    assert kept(Checkpoint(keep=2)) == [50, 60]
    assert kept(Checkpoint(keep=2, best="val_loss")) == [20, 50, 60]
    assert kept(Checkpoint(keep=1, best="val_accuracy")) == [10, 60]
    assert kept(Checkpoint(keep=9)) == list(values)
    assert surplus([], Checkpoint()) == []


def test_whatever_is_written_the_newest_and_the_best_so_far_are_there() -> None:
    draw = random.Random(1)
    for _ in range(200):
        policy = Checkpoint(keep=draw.randint(1, 4), best="loss")
        known: list[CheckpointInfo] = []
        best = math.inf
        for step in range(1, draw.randint(2, 15)):
            known.append(CheckpointInfo(step=step, epoch=0, metric=draw.choice([None, draw.random()])))
            best = min(best, math.inf if known[-1].metric is None else known[-1].metric)
            gone = surplus(known, policy)
            known = [info for info in known if info not in gone]
            assert [info.step for info in known[-policy.keep :]] == list(
                range(max(1, step - policy.keep + 1), step + 1)
            )
            assert best == math.inf or best in [info.metric for info in known]
            assert len(known) <= policy.keep + 1


def test_a_runs_events_tell_which_there_are() -> None:
    def saved(step: int, *removed: int) -> CheckpointSaved:
        return CheckpointSaved(time=1.0, checkpoint=CheckpointInfo(step=step, epoch=0), removed=list(removed))

    events = [saved(2), object(), saved(4), saved(6, 2), saved(4)]
    assert [info.step for info in checkpoints_of(events)] == [4, 6]
    assert checkpoints_of([]) == []
