"""A model as a graph of layers, with their costs. Sizes are for one example unless stated otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from .base import Struct


def containers_of(layer: str) -> Iterator[str]:
    """The paths of the containers of a layer, innermost first: ``a/b`` and ``a`` for ``a/b/dense``."""
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
    """The shapes of its inputs in the first call, with a batch of one example."""
    output_shapes: list[list[int]] = []
    parameters: int = 0
    """The number of elements of its weights, trainable or not."""
    parameter_bytes: int = 0
    gradient_bytes: int = 0
    slot_bytes: int = 0
    """Bytes of the optimizer's slots for its weights."""
    activation_bytes: int = 0
    """Bytes of the outputs of its operations in a forward pass, which the backward pass may need."""
    flops: int = 0
    """Floating-point operations of a forward pass: a multiplication and an addition are two."""


class Edge(Struct):
    """An output of a layer that another one needs."""

    source: str
    target: str
    bytes: int
    """Bytes in a forward pass; the backward pass sends as many in reverse."""


class Input(Struct):
    """An input of the model. It is not a layer and not placed, but sent to the devices of the layers that use it."""

    name: str
    """The key or name of its data; without one, its position in the argument of ``call``."""
    shape: list[int] = []
    """With a batch of one example, as for layers."""
    dtype: str = ""
    """Empty if the model does not say."""
    targets: list[str] = []
    """The ids of the layers that use it, in order."""


class Refusal(Struct):
    """Why ``dtf.Pipeline`` would not train the model as it was compiled when it was described."""

    field: str
    """The field of a design: ``model`` if it holds for any design, or else the cause, such as ``run.replicas``."""
    message: str


class LayerGraph(Struct):
    """The layers in the order in which they are first called, and the edges between them."""

    model: str
    layers: list[Layer]
    edges: list[Edge]
    inputs: list[Input] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    """What could not be determined."""
    refusals: list[Refusal] = msgspec.field(default_factory=list)
    takes_turns: bool = False
    """Whether a pipeline of it alternates forward and backward passes (``schedule="1f1b"``)."""
