"""Computes the position of a training run in the passes over its data, for sources that can start at any batch.
Pure.
"""

from __future__ import annotations

from typing import NamedTuple


class PassPlace(NamedTuple):
    """The number of finished passes, and the position in the current pass."""

    passes: int
    first: int
    """The next batch of this pass, counted from 0."""
    seen: int
    """The number of batches that earlier epochs have taken from the current epoch's pass, even if the next batch is in
    another pass.
    """
    epochs: int
    """The number of epochs whose batches have all been taken."""


def pass_place(length: int, epochs: int, steps: int, steps_per_epoch: int | None) -> PassPlace:
    """Return the position after ``epochs`` epochs of ``steps_per_epoch`` batches (None: a whole pass) and ``steps``
    more batches.

    ``length``: the number of batches in a pass; -1: endless. As in Keras, an epoch ends at the end of its pass.
    """
    if length < 0:
        assert steps_per_epoch is not None
        return PassPlace(0, epochs * steps_per_epoch + steps, 0, epochs + (steps == steps_per_epoch))
    steps_per_epoch = steps_per_epoch or length
    passes, within = divmod(epochs, max(-(-length // steps_per_epoch), 1))
    seen = within * steps_per_epoch
    is_over = steps > 0 and steps == min(steps_per_epoch, length - seen)
    if seen + steps == length:
        # Keras knows the length, so it requests no more batches of this pass: the next iteration is over the next pass.
        return PassPlace(passes + 1, 0, seen, epochs + is_over)
    return PassPlace(passes, seen + steps, seen, epochs + is_over)
