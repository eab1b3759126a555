"""Tests of the position of a training run in its data, compared with an enumeration of all of its batches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jupyter_dtf.backend.task.fit.sources.pass_place import pass_place

EPOCHS = 9


def batches(length: int, steps_per_epoch: int | None) -> Iterator[list[tuple[int, int]]]:
    """Yield the batches of each epoch, as pairs of pass and number. An epoch ends no later than its pass."""
    passed = number = 0
    for _ in range(EPOCHS):
        left = steps_per_epoch if length < 0 else min(steps_per_epoch or length, length - number)
        assert left is not None
        yield [(passed, number + step) for step in range(left)]
        number += left
        if number == length:
            passed, number = passed + 1, 0


@pytest.mark.parametrize("steps_per_epoch", [None, 1, 2, 3, 5, 7])
@pytest.mark.parametrize("length", [-1, 1, 2, 3, 5, 6])
def test_the_next_batch_is_the_one_that_would_have_come(length: int, steps_per_epoch: int | None) -> None:
    if length < 0 and steps_per_epoch is None:
        return  # an endless pass has no epochs then
    told = list(batches(length, steps_per_epoch))
    for epoch in range(EPOCHS - 1):
        for step in range(len(told[epoch]) + 1):
            place = pass_place(length, epoch, step, steps_per_epoch)
            following = [*told[epoch][step:], *told[epoch + 1]][0]
            assert (place.passes, place.first) == following
            assert place.epochs == epoch + (step == len(told[epoch]))
            assert place.seen == (told[epoch][0][1] if length > 0 else 0)  # Keras counts up to the end, if there is one
