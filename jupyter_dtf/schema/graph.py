"""A model as a graph of layers, with what each costs. Sizes are for one example unless they say otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from .base import Struct


def containers_of(layer: str) -> Iterator[str]:
    """The paths of the containers that a layer is in, the nearest first: ``a/b`` and ``a`` of ``a/b/dense``."""
    while layer := layer.rpartition("/")[0]:
        yield layer


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


class Edge(Struct):
    """What a layer puts out is needed by another."""

    source: str
    target: str
    bytes: int
    """In a forward pass; the backward pass sends as many the other way."""


class Input(Struct):
    """What goes into the model. It is no layer: it is not placed, and goes to wherever the layers are that take it."""

    name: str
    """The key or the name that its data goes by; where nobody named it, its place in the argument of ``call``."""
    shape: list[int] = []
    """With a batch of one example, as those of the layers."""
    dtype: str = ""
    """Empty where the model does not say."""
    targets: list[str] = []
    """The ids of the layers that take it, in their order."""


class Refusal(Struct):
    """Why ``dtf.Pipeline`` would not train the model as it was compiled when it was described."""

    field: str
    """Of a design: ``model``, whatever is drawn; or what makes it so, such as ``run.replicas``."""
    message: str


class LayerGraph(Struct):
    """The layers in the order in which they are first called, and what travels between them."""

    model: str
    layers: list[Layer]
    edges: list[Edge]
    inputs: list[Input] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    """What could not be seen."""
    refusals: list[Refusal] = msgspec.field(default_factory=list)
    takes_turns: bool = False
    """Whether a pipeline of it is to take one forward pass and one backward pass in turn (``schedule="1f1b"``)."""
