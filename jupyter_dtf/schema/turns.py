"""One forward, one backward: in which order the devices of a pipeline do their passes. Pure.

Each pass has a turn, and a device does its passes by turn. A stage's *level* is the number of changes of device before
it: on the way forward counted from the inputs, on the way back from the loss.

* A stage does a few forward passes ahead of its first backward pass, two for each level behind it, so that it has
  something to do while a microbatch travels to the loss and back. From then on it takes a backward pass and a forward
  pass in turn, and holds the activations of so many microbatches as it is ahead, however many a batch has.
* A backward pass computes the derivatives that another stage waits for first. Those of weights, which nobody waits for,
  follow as many microbatches later as there are levels between the stage and the end of the way back. They fill the
  gaps in which a stage would otherwise wait at the end of a step.
"""

from __future__ import annotations

from dataclasses import dataclass

APART = 2
"""Turns between a microbatch and the next one."""
AHEAD = 2
"""Turns between a level and the next one: 1 is as few microbatches on the way as keep all stages busy if nothing takes
longer than planned; 2 leaves time for transfers."""


@dataclass(frozen=True)
class Turns:
    """The turns of a pipeline whose stages have levels 0 to ``forward_levels``, and back 0 to ``backward_levels``."""

    forward_levels: int
    backward_levels: int

    def forward(self, microbatch: int, level: int) -> int:
        return APART * microbatch + AHEAD * level

    def inputs(self, microbatch: int, level: int) -> int:
        """Of the derivatives that another stage waits for. ``level``: on the way back."""
        return APART * microbatch + AHEAD * (self.forward_levels + level) + 1

    def weights(self, microbatch: int, level: int) -> int:
        """Of all other derivatives."""
        return self.inputs(microbatch, level) + APART * (self.backward_levels - level)

    def held(self, forward_level: int, backward_level: int) -> int:
        """Of how many microbatches a stage holds the activations, if a batch has as many."""
        return (self.weights(0, backward_level) - self.forward(0, forward_level)) // APART + 1
