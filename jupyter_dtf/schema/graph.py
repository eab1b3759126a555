"""A model as a graph of layers, with what each costs. Sizes are for one example unless they say otherwise."""

from __future__ import annotations

import msgspec

from .base import Struct


class Layer(Struct):
    """One layer that computes something itself. A layer that is called several times is one node."""

    id: str
    """Its path in the model, ``encoder/dense_1``: the containers it is in, and its name."""
    kind: str
    """Its class, ``Dense``."""
    calls: int = 1
    input_shapes: list[list[int]] = []
    """Of the first call, with a batch of one example."""
    output_shapes: list[list[int]] = []
    parameters: int = 0
    """Numbers in its weights, trainable or not."""
    parameter_bytes: int = 0
    gradient_bytes: int = 0
    slot_bytes: int = 0
    """What the optimizer keeps for its weights."""
    activation_bytes: int = 0
    """What its operations put out in a forward pass, which the backward pass may need."""
    flops: int = 0
    """Floating-point operations of a forward pass: a multiplication and an addition are two."""

    @property
    def block(self) -> str:
        """The container it is in, empty for the model itself."""
        return self.id.rpartition("/")[0]


class Edge(Struct):
    """What a layer puts out is needed by another."""

    source: str
    target: str
    bytes: int
    """In a forward pass; the backward pass sends as many the other way."""


class LayerGraph(Struct):
    """The layers in the order in which they are first called, and what travels between them."""

    model: str
    layers: list[Layer]
    edges: list[Edge]
    notes: list[str] = msgspec.field(default_factory=list)
    """What could not be seen."""
