"""The layers of a SavedModel, derived from the operations of its signature.

A SavedModel contains no layers, but the names of its operations contain the scopes of the layers that created them, as
in ``digits/encoder/dense/MatMul``. A scope that itself reads variables or computes something is a layer, which includes
everything within the scope. A scope that does neither is a container.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from ....schema.graph import Edge, Input, Layer, LayerGraph
from . import flops
from .saved_graph import Argument, Graph, Operation, Tensor, read_graph

_CALLS = ("StatefulPartitionedCall", "PartitionedCall", "Func")
_READ = "ReadVariableOp"
_VARIABLE = "VarHandleOp"
_NO_WORK = ("Const", "Placeholder", "NoOp", "Identity", _READ, _VARIABLE)
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
    "ResourceGather": "Embedding",
}
"""The assumed kind of a layer with variables, keyed by the first of these operation types that the layer contains."""

Scope = tuple[str, ...]


def describe_saved(path: Path) -> LayerGraph:
    """Return the layers of a SavedModel's signature ``serving_default``, or else of its first signature.

    Raises InvalidInput if it has no signature, or is too large.
    """
    return _Reading(path.name, read_graph(path)).graph()


class _Reading:
    """Groups one graph's operations into layers."""

    def __init__(self, name: str, read: Graph) -> None:
        self._name = name
        self._arguments = read.arguments
        self._operations = operations = read.get_operations()
        self._scopes = {op.name: _scope(op) for op in operations}
        self._roots = self._layers_at()

    def _layers_at(self) -> set[Scope]:
        """Return the scopes that are layers and not within another layer."""
        own = {scope for scope in self._scopes.values() if len(scope) > 1}
        return {scope for scope in own if not any(scope[:end] in own for end in range(2, len(scope)))}

    def _layer_of(self, operation: Operation) -> Scope | None:
        scope = self._scopes[operation.name]
        return next((scope[:end] for end in range(2, len(scope) + 1) if scope[:end] in self._roots), None)

    def graph(self) -> LayerGraph:
        inside: dict[Scope, list[Operation]] = {}
        for op in self._operations:
            if (layer := self._layer_of(op)) is not None and op.type not in _NO_WORK:
                # Ordered by their last operations, because operations that depend only on constants come early.
                operations = inside[layer] = inside.pop(layer, [])
                operations.append(op)
        again = all(part.endswith("_1") for layer in inside for part in layer)  # Keras has traced them a second time
        names = {layer: "/".join(part.removesuffix("_1") if again else part for part in layer[1:]) for layer in inside}
        edges, taken = self._edges(names)
        return LayerGraph(
            model=self._name,
            layers=[self._layer(names[layer], operations) for layer, operations in inside.items()],
            edges=edges,
            inputs=[
                Input(name=argument.name, shape=_shape(argument), dtype=argument.dtype.name, targets=targets)
                for argument, targets in zip(self._arguments, taken, strict=True)
            ],
            notes=[
                "Derived from the operations of a SavedModel: layers are the scopes in the operations' names, and the "
                "optimizer's slots are unknown"
            ],
        )

    def _layer(self, name: str, operations: list[Operation]) -> Layer:
        within = {op.name for op in operations}
        variables = {source.name: source for op in operations for source in _variables(op)}
        shapes = {name: tf.TensorShape(source.get_attr("shape")) for name, source in variables.items()}
        size = sum(_numbers(shapes[name]) * _size(source.get_attr("dtype")) for name, source in variables.items())
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
            parameters=sum(map(_numbers, shapes.values())),
            parameter_bytes=size,
            gradient_bytes=size,
            activation_bytes=sum(_bytes(t) for op in operations if flops.of_operation(op) for t in op.outputs),
            flops=sum(map(flops.of_operation, operations)),
        )

    def _edges(self, names: dict[Scope, str]) -> tuple[list[Edge], list[list[str]]]:
        """Return the edges between layers, including those through operations outside of layers, and for each argument,
        the layers that use it.
        """
        origins: dict[str, dict[str, tuple[Scope, int]]] = {}  # keyed by tensor: the layer outputs that it depends on
        given = {argument.tensor: number for number, argument in enumerate(self._arguments)}
        arguments: dict[str, set[int]] = {}  # keyed by tensor: the arguments that it uses directly
        taken: list[dict[str, None]] = [{} for _ in self._arguments]
        sizes: dict[tuple[Scope, Scope], dict[str, int]] = {}
        for op in self._operations:
            layer = self._layer_of(op)
            found = {key: origin for tensor in op.inputs for key, origin in origins.get(tensor.name, {}).items()}
            direct = {number for tensor in op.inputs for number in arguments.get(tensor.name, ())}
            is_work = layer in names and op.type not in _NO_WORK
            if is_work and layer is not None:
                for number in direct:
                    taken[number][names[layer]] = None
                for key, (source, size) in found.items():
                    if source != layer:
                        sizes.setdefault((source, layer), {})[key] = size
            for tensor in op.outputs:
                own = {tensor.name: (layer, _bytes(tensor))} if is_work and layer is not None else found
                origins[tensor.name] = own
                arguments[tensor.name] = {given[tensor.name]} if tensor.name in given else set() if is_work else direct
        edges = [
            Edge(source=names[source], target=names[target], bytes=sum(tensors.values()))
            for (source, target), tensors in sizes.items()
        ]
        return edges, [list(targets) for targets in taken]


def _scope(operation: Operation) -> Scope:
    """Return an operation's scope, without inlined calls. For a read of a variable, this is the layer's scope; for
    other operations that do no work, it is empty.
    """
    parts = [part for part in operation.name.split("/") if not part.startswith(_CALLS)]
    if parts and parts[-1] == _READ:
        return tuple(parts[:-2])
    return tuple(parts[:-1]) if operation.type not in _NO_WORK else ()


def _variables(operation: Operation) -> Iterator[Operation]:
    """Yield the variables that an operation uses, directly or through read operations."""
    for tensor in operation.inputs:
        source = tensor.op
        while source.type in ("Identity", _READ) and source.inputs:
            source = source.inputs[0].op
        if source.type == _VARIABLE:
            yield source


def _is_inside(operation: Operation, within: set[str]) -> bool:
    """Return whether an operation's output belongs to a layer: created within it, or a constant or variable."""
    while operation.type in ("Identity", _READ) and operation.inputs:
        operation = operation.inputs[0].op
    return operation.name in within or operation.type in ("Const", _VARIABLE)


def _shape(tensor: Tensor | Argument) -> list[int]:
    return [size or 1 for size in tensor.shape] if tensor.shape.rank is not None else []


def _numbers(shape: tf.TensorShape) -> int:
    return math.prod(size or 1 for size in shape) if shape.rank is not None else 0


def _bytes(tensor: Tensor) -> int:
    return math.prod(_shape(tensor)) * int(tensor.dtype.size)


def _size(dtype: int) -> int:
    return int(tf.as_dtype(dtype).size)
