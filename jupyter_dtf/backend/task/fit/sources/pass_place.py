"""Pure: where a training stands in the passes over its data, for a source that can begin with any batch."""

from __future__ import annotations

from typing import NamedTuple


class PassPlace(NamedTuple):
    """After how many passes, and how many batches of the one under way."""

    passes: int
    first: int
    """The next batch of this pass, from 0."""
    seen: int
    """How many of the pass under way the epochs before the one under way have had, whatever pass comes next."""
    epochs: int
    """How many epochs are over, as far as their batches are concerned."""


def pass_place(length: int, epochs: int, steps: int, steps_per_epoch: int | None) -> PassPlace:
    """The place after so many epochs of ``steps_per_epoch`` batches (None: of a pass), and so many steps of the next.

    ``length``: batches in a pass; -1 if it is endless. As in Keras an epoch ends with its pass.
    """
    if length < 0:
        assert steps_per_epoch is not None
        return PassPlace(0, epochs * steps_per_epoch + steps, 0, epochs + (steps == steps_per_epoch))
    steps_per_epoch = steps_per_epoch or length
    passes, within = divmod(epochs, max(-(-length // steps_per_epoch), 1))
    seen = within * steps_per_epoch
    is_over = steps > 0 and steps == min(steps_per_epoch, length - seen)
    if seen + steps == length:
        # Keras, which knows the length, asks for nothing of this pass: the next iteration is over the one after it.
        return PassPlace(passes + 1, 0, seen, epochs + is_over)
    return PassPlace(passes, seen + steps, seen, epochs + is_over)
