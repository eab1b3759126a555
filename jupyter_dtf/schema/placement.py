"""Where a model's layers are to run, and what that is expected to cost."""

from __future__ import annotations

import msgspec

from ..errors import InvalidInput
from .base import Struct


class Device(Struct):
    """A device that layers may be placed on."""

    name: str
    """``/job:worker/task:1/device:CPU:0``."""
    flops_per_s: float
    memory_bytes: int = 0
    """0: as much as is wanted."""

    def __post_init__(self) -> None:
        if not self.flops_per_s > 0:
            raise InvalidInput(f"flops_per_s is above 0. Received: {self.flops_per_s}", field="flops_per_s")


class Link(Struct):
    """What it takes to send something from one device to another."""

    bytes_per_s: float = 1e9
    latency_s: float = 2e-4

    def __post_init__(self) -> None:
        if not self.bytes_per_s > 0 or self.latency_s < 0:
            raise InvalidInput(
                f"bytes_per_s is above 0 and latency_s not below it. Received: {self.bytes_per_s}, {self.latency_s}",
                field="link",
            )


class Stage(Struct):
    """What one device does in a step."""

    device: str
    layers: list[str]
    seconds: float
    """For one microbatch, forward and backward, with what it sends and receives."""
    memory_bytes: int
    """Weights, gradients, slots, and the activations of all microbatches of a step."""
    sent_bytes: int
    """By the forward pass of one microbatch."""


class Placement(Struct):
    """Stages in the order in which an example goes through them."""

    stages: list[Stage]
    batch_size: int
    microbatches: int
    step_seconds: float
    """Expected: the first microbatch goes through all stages, the others follow at the pace of the slowest."""
    pinned: dict[str, str] = msgspec.field(default_factory=dict)
    """What a person had chosen."""

    @property
    def devices(self) -> dict[str, str]:
        """The device of each layer."""
        return {layer: stage.device for stage in self.stages for layer in stage.layers}

    @property
    def bubble(self) -> float:
        """The part of the step, from 0 to 1, in which the devices wait for each other."""
        busy = sum(stage.seconds for stage in self.stages) * self.microbatches
        return 1 - busy / (self.step_seconds * len(self.stages))
