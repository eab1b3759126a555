"""The order of the passes on a pipeline's devices with the schedule "one forward, one backward".

Each pass has a turn, and a device runs its passes in the order of their turns. A stage's *level* is the number of
device changes before it, counted from the inputs in the forward pass and from the loss in the backward pass.

* A stage runs a few forward passes before its first backward pass, two for each level after it, so that it is busy
  while a microbatch passes to the loss and back. From then on, it alternates backward and forward passes, and holds the
  activations of as many microbatches as it is ahead, regardless of the number of microbatches in a batch.
* A backward pass first computes the derivatives for which another stage waits. The derivatives of weights, for which no
  stage waits, follow as many microbatches later as there are levels between the stage and the end of the backward pass.
  They fill the gaps in which a stage would otherwise wait at the end of a step.
"""

from __future__ import annotations

from dataclasses import dataclass

APART = 2
"""The number of turns between consecutive microbatches."""
AHEAD = 2
"""The number of turns between consecutive levels. 1 is the smallest number that keeps all stages busy if nothing is
late; 2 allows time for transfers, with more microbatches in flight."""


@dataclass(frozen=True)
class Turns:
    """The turns of a pipeline. ``forward_levels`` and ``backward_levels`` are the highest levels of the two passes."""

    forward_levels: int
    backward_levels: int

    def forward(self, microbatch: int, level: int) -> int:
        return APART * microbatch + AHEAD * level

    def inputs(self, microbatch: int, level: int) -> int:
        """Return the turn of the derivatives for which another stage waits. ``level`` is its backward level."""
        return APART * microbatch + AHEAD * (self.forward_levels + level) + 1

    def weights(self, microbatch: int, level: int) -> int:
        """Return the turn of all other derivatives."""
        return self.inputs(microbatch, level) + APART * (self.backward_levels - level)

    def held(self, forward_level: int, backward_level: int) -> int:
        """Return the number of microbatches whose activations a stage holds, for a batch with at least that many."""
        return (self.weights(0, backward_level) - self.forward(0, forward_level)) // APART + 1
