"""One forward, one backward: the order of the passes of a pipeline's devices. Pure.

Each pass has a turn, and a device runs its passes in the order of turns. A stage's *level* is the number of device
changes before it: from the inputs in the forward pass, from the loss in the backward pass.

* A stage runs a few forward passes before its first backward pass, two for each level after it, so that it is busy
  while a microbatch goes to the loss and back. From then on it alternates backward and forward passes, and holds the
  activations of as many microbatches as it is ahead, however many a batch has.
* A backward pass first computes the derivatives that another stage waits for. Those of weights, which no stage waits
  for, follow as many microbatches later as there are levels between the stage and the end of the backward pass. They
  fill the gaps in which a stage would otherwise wait at the end of a step.
"""

from __future__ import annotations

from dataclasses import dataclass

APART = 2
"""The number of turns between consecutive microbatches."""
AHEAD = 2
"""The number of turns between consecutive levels: 1 has the fewest microbatches in flight that keep all stages busy if
nothing is late; 2 leaves time for transfers."""


@dataclass(frozen=True)
class Turns:
    """The turns of a pipeline whose stages have levels 0 to ``forward_levels``, and back 0 to ``backward_levels``."""

    forward_levels: int
    backward_levels: int

    def forward(self, microbatch: int, level: int) -> int:
        return APART * microbatch + AHEAD * level

    def inputs(self, microbatch: int, level: int) -> int:
        """The turn of the derivatives that another stage waits for. ``level``: in the backward pass."""
        return APART * microbatch + AHEAD * (self.forward_levels + level) + 1

    def weights(self, microbatch: int, level: int) -> int:
        """The turn of all other derivatives."""
        return self.inputs(microbatch, level) + APART * (self.backward_levels - level)

    def held(self, forward_level: int, backward_level: int) -> int:
        """The number of microbatches whose activations a stage holds, if a batch has that many."""
        return (self.weights(0, backward_level) - self.forward(0, forward_level)) // APART + 1
