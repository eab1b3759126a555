"""The layers of a SavedModel, seen in the operations of its signature.

A SavedModel has no layers, but the names of its operations have the scopes of the layers that made them:
``digits/encoder/dense/MatMul``. A scope that reads variables or computes something itself is a layer, with all that is
within it; a scope that does neither is a container.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from ...errors import InvalidInput
from ...schema.graph import Edge, Layer, LayerGraph
from . import flops

_CALLS = ("StatefulPartitionedCall", "PartitionedCall", "Func")
_READ = "ReadVariableOp"
_NO_WORK = ("Const", "Placeholder", "NoOp", "Identity")
_KINDS = {
    "Conv2D": "Conv2D",
    "Conv3D": "Conv3D",
    "DepthwiseConv2dNative": "DepthwiseConv2D",
    "While": "RNN",
    "Softmax": "Attention",
    "Rsqrt": "Normalization",
    "FusedBatchNormV3": "BatchNormalization",
    "MatMul": "Dense",
    "BatchMatMulV2": "Dense",
    "GatherV2": "Embedding",
}
"""What a layer with variables is taken to be, by the first of these operations that it has."""

Scope = tuple[str, ...]


def describe_saved(path: Path) -> LayerGraph:
    """The layers of a SavedModel's signature ``serving_default``, or its first. Raises InvalidInput if it has none."""
    model = tf.saved_model.load(os.fspath(path))  # which keeps the variables
    signatures = model.signatures
    function = signatures.get("serving_default") or next(iter(signatures.values()), None)
    if function is None:
        raise InvalidInput(f"A SavedModel is described by a signature. Received: {path.name!r}, without", field="path")
    graph = convert_variables_to_constants_v2(function, lower_control_flow=False).graph
    return _Reading(path.name, graph.get_operations()).graph()


class _Reading:
    """One graph's operations, their variables constants by now, put together to layers."""

    def __init__(self, name: str, operations: list[tf.Operation]) -> None:
        self._name = name
        self._operations = operations
        self._scopes = {op.name: _scope(op) for op in operations}
        self._roots = self._layers_at()

    def _layers_at(self) -> set[Scope]:
        """The scopes that are layers and are within no other."""
        own = {scope for scope in self._scopes.values() if len(scope) > 1}
        return {scope for scope in own if not any(scope[:end] in own for end in range(2, len(scope)))}

    def _layer_of(self, operation: tf.Operation) -> Scope | None:
        scope = self._scopes[operation.name]
        return next((scope[:end] for end in range(2, len(scope) + 1) if scope[:end] in self._roots), None)

    def graph(self) -> LayerGraph:
        inside: dict[Scope, list[tf.Operation]] = {}
        for op in self._operations:
            if (layer := self._layer_of(op)) is not None and op.type not in _NO_WORK:
                # In the order of their ends: what depends on constants alone comes early.
                operations = inside[layer] = inside.pop(layer, [])
                operations.append(op)
        again = all(part.endswith("_1") for layer in inside for part in layer)  # Keras has traced it a second time
        names = {layer: "/".join(part.removesuffix("_1") if again else part for part in layer[1:]) for layer in inside}
        return LayerGraph(
            model=self._name,
            layers=[self._layer(names[layer], operations) for layer, operations in inside.items()],
            edges=self._edges(names),
            notes=[
                "Read from the operations of a SavedModel: layers are the scopes of their names, slots of an optimizer "
                "are not known"
            ],
        )

    def _layer(self, name: str, operations: list[tf.Operation]) -> Layer:
        within = {op.name for op in operations}
        variables = {source.name: source.outputs[0] for op in operations for source in _variables(op)}
        size = sum(_bytes(variable) for variable in variables.values())
        types = {op.type for op in operations}
        kinds = [kind for type_, kind in _KINDS.items() if type_ in types and variables]
        taken = [tensor for op in operations for tensor in op.inputs if not _is_inside(tensor.op, within)]
        given = [
            tensor
            for op in operations
            for tensor in op.outputs
            if any(consumer.name not in within for consumer in tensor.consumers())
        ]
        return Layer(
            id=name,
            kind=kinds[0] if kinds else max(operations, key=flops.of_operation).type,
            input_shapes=[_shape(tensor) for tensor in {tensor.name: tensor for tensor in taken}.values()],
            output_shapes=[_shape(tensor) for tensor in given],
            parameters=sum(math.prod(variable.shape) for variable in variables.values()),
            parameter_bytes=size,
            gradient_bytes=size,
            activation_bytes=sum(_bytes(t) for op in operations if flops.of_operation(op) for t in op.outputs),
            flops=sum(map(flops.of_operation, operations)),
        )

    def _edges(self, names: dict[Scope, str]) -> list[Edge]:
        """From each layer to those that its tensors reach through operations that are in none."""
        origins: dict[str, dict[str, tuple[Scope, int]]] = {}  # of a tensor: the layers' tensors that it comes from
        sizes: dict[tuple[Scope, Scope], dict[str, int]] = {}
        for op in self._operations:
            layer = self._layer_of(op)
            found = {key: origin for tensor in op.inputs for key, origin in origins.get(tensor.name, {}).items()}
            is_work = layer in names and op.type not in _NO_WORK
            if is_work and layer is not None:
                for key, (source, size) in found.items():
                    if source != layer:
                        sizes.setdefault((source, layer), {})[key] = size
            for tensor in op.outputs:
                own = {tensor.name: (layer, _bytes(tensor))} if is_work and layer is not None else found
                origins[tensor.name] = own
        return [
            Edge(source=names[source], target=names[target], bytes=sum(tensors.values()))
            for (source, target), tensors in sizes.items()
        ]


def _scope(operation: tf.Operation) -> Scope:
    """The scopes an operation was made in, without calls that were inlined; where it reads a variable, the layer's."""
    parts = [part for part in operation.name.split("/") if not part.startswith(_CALLS)]
    if parts and parts[-1] == _READ:
        return tuple(parts[:-2])
    return tuple(parts[:-1]) if operation.type not in _NO_WORK else ()


def _variables(operation: tf.Operation) -> Iterator[tf.Operation]:
    """What were the variables that an operation takes: constants in no scope."""
    for tensor in operation.inputs:
        source = tensor.op
        while source.type == "Identity" and source.inputs:
            source = source.inputs[0].op
        if source.type == "Const" and "/" not in source.name:
            yield source


def _is_inside(operation: tf.Operation, within: set[str]) -> bool:
    """Whether what an operation gives is of the layer itself: made there, or a constant."""
    while operation.type == "Identity" and operation.inputs:
        operation = operation.inputs[0].op
    return operation.name in within or operation.type == "Const"


def _shape(tensor: Any) -> list[int]:
    return [size or 1 for size in tensor.shape] if tensor.shape.rank is not None else []


def _bytes(tensor: Any) -> int:
    return math.prod(_shape(tensor)) * int(tensor.dtype.size)
