"""A model as a graph of layers, with their costs. Sizes are for one example unless stated otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from .base import Struct


def containers_of(layer: str) -> Iterator[str]:
    """Yield the paths of the containers of a layer, innermost first: ``a/b`` and ``a`` for ``a/b/dense``."""
    while layer := layer.rpartition("/")[0]:
        yield layer


class Layer(Struct):
    """One layer that computes, rather than a container of layers. A layer that is called several times is one node."""

    id: str
    """The path of the layer in the model, such as ``encoder/dense_1``: its containers and its name."""
    kind: str
    """The class of the layer, such as ``Dense``."""
    calls: int = 1
    input_shapes: list[list[int]] = []
    """The shapes of the layer's inputs in its first call, with a batch of one example."""
    output_shapes: list[list[int]] = []
    parameters: int = 0
    """The number of elements of the layer's weights, trainable or not."""
    parameter_bytes: int = 0
    gradient_bytes: int = 0
    slot_bytes: int = 0
    """Bytes of the optimizer's slots for the layer's weights."""
    activation_bytes: int = 0
    """Bytes of the outputs of the layer's operations in a forward pass, which the backward pass may need."""
    flops: int = 0
    """Floating-point operations of a forward pass. A multiplication and an addition count as two."""


class Edge(Struct):
    """An output of a layer that another layer needs."""

    source: str
    target: str
    bytes: int
    """Bytes sent in a forward pass; the backward pass sends as many in the opposite direction."""


class Input(Struct):
    """An input of the model. It is not placed like a layer, but sent to the devices of the layers that use it."""

    name: str
    """The key or name of the input's data, or else its position in the argument of ``call``."""
    shape: list[int] = []
    """The shape with a batch of one example, as for layers."""
    dtype: str = ""
    """The dtype; empty if the model does not specify it."""
    targets: list[str] = []
    """The ids of the layers that use the input, in order."""


class Refusal(Struct):
    """A reason why ``dtf.Pipeline`` cannot train the model as it was compiled when it was described."""

    field: str
    """The field of a design that is the cause, such as ``run.replicas``, or ``model`` if the reason applies to every
    design."""
    message: str


class LayerGraph(Struct):
    """The layers of a model, in the order in which they are first called, and the edges between them."""

    model: str
    layers: list[Layer]
    edges: list[Edge]
    inputs: list[Input] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    """Facts about the model that could not be determined."""
    refusals: list[Refusal] = msgspec.field(default_factory=list)
    takes_turns: bool = False
    """Whether a pipeline of this model alternates forward and backward passes (``schedule="1f1b"``)."""
