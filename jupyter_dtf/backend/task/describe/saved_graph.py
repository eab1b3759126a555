"""The operations of a SavedModel's signature, read from its protocol buffers, without loading or running anything.

Loading a SavedModel runs its initializers, and importing its graph into TensorFlow evaluates parts of the graph to
infer shapes. Instead, this module inlines function calls itself and uses the shapes stored in the file. ``Operation``
and ``Tensor`` have only those attributes of TensorFlow's classes that ``flops`` and ``describe_saved`` use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

# TensorFlow 2.21: the definitions of operations can be looked up nowhere else.
from tensorflow.python.framework import op_def_registry

from ....errors import InvalidInput
from .model_files import open_regular

FILE = "saved_model.pb"
MAX_BYTES = 1 << 30
MAX_OPERATIONS = 1_000_000
"""The maximum number of operations after inlining. A chain of ten functions, each of which calls the next one ten
times, would exceed it.
"""
MAX_CALLS_DEEP = 100
_MAX_OUTPUTS = 10_000
_INIT = "__saved_model_init_op"


class Tensor:
    """An output of an operation."""

    def __init__(self, op: Operation, index: int, shape: tf.TensorShape, dtype: tf.DType) -> None:
        self.op = op
        self.name = f"{op.name}:{index}"
        self.shape = shape
        self.dtype = dtype
        self._consumers: list[Operation] = []

    def consumers(self) -> list[Operation]:
        """Return the operations that use this tensor."""
        return self._consumers


class Operation:
    """A node of the graph."""

    def __init__(self, name: str, node: Any, inputs: Sequence[Tensor], graph: Graph) -> None:
        self.name = name
        self.type: str = node.op
        self.inputs = list(inputs)
        self.outputs: list[Tensor] = []
        self.graph = graph
        self._attributes = node.attr

    def get_attr(self, name: str) -> Any:
        """Return an attribute: a plain value, a shape, a type or a function reference."""
        value = self._attributes[name]
        kind = value.WhichOneof("value")
        return value.func if kind == "func" else getattr(value, kind) if kind else None


class Argument(NamedTuple):
    """An argument of a signature."""

    name: str
    tensor: str
    """The name of the argument's tensor, which is not in the graph if no output depends on it."""
    shape: tf.TensorShape
    dtype: tf.DType


class Graph:
    """The operations that the outputs of a signature or function depend on, in the order of creation."""

    def __init__(self, library: dict[str, Any], budget: _Budget) -> None:
        self._library = library
        self._budget = budget
        self._operations: list[Operation] = []
        self.arguments: list[Argument] = []
        self._functions: dict[tuple[str, tuple[int, ...]], list[Operation]] = {}

    def get_operations(self) -> list[Operation]:
        return self._operations

    def function(self, name: str, inputs: Sequence[Tensor]) -> list[Operation]:
        """Return the operations of a function, such as a loop's body, called with these inputs."""
        key = (name, tuple(map(id, inputs)))
        if key not in self._functions:
            self._functions[key] = self._inlined(name, inputs)
        return self._functions[key]

    def _inlined(self, name: str, inputs: Sequence[Tensor]) -> list[Operation]:
        definition = self._library.get(name)
        if definition is None:
            return []
        inside = _Inlining(self._library, self._budget)
        names = [argument.name for argument in definition.signature.input_arg]
        arguments = [inside.argument(name, tensor) for name, tensor in zip(names, inputs, strict=False)]
        return inside.finished(inside.body(definition, arguments, "")).get_operations()

    def keep(self, operations: list[Operation], outputs: Iterable[Tensor]) -> None:
        """Keep the operations that the outputs depend on."""
        needed: set[int] = set()
        waiting = [tensor.op for tensor in outputs]
        while waiting:
            operation = waiting.pop()
            if id(operation) not in needed:
                needed.add(id(operation))
                waiting += [tensor.op for tensor in operation.inputs]
        self._operations = [operation for operation in operations if id(operation) in needed]
        for operation in self._operations:
            for tensor in operation.inputs:
                tensor._consumers.append(operation)


class _Budget:
    """The total number of operations and calls that may still be added, over all functions."""

    def __init__(self) -> None:
        self._left = MAX_OPERATIONS

    def take(self) -> None:
        """Use up one operation or call. Raises InvalidInput if none is left."""
        self._left -= 1
        if self._left < 0:
            raise InvalidInput(f"A SavedModel must have at most {MAX_OPERATIONS} operations, got more", field="path")


def read_graph(path: Path) -> Graph:
    """Read the graph of a SavedModel's signature ``serving_default``, or else of its first signature.

    Raises InvalidInput if it has no signature, or is too large.
    """
    with open_regular(path / FILE) as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise InvalidInput(f"{path.name}: {FILE} must have at most {MAX_BYTES} bytes, got more", field="path")
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString(data)
    metas = sorted(saved.meta_graphs, key=lambda meta: "serve" not in meta.meta_info_def.tags)
    signatures = {key: sig for key, sig in (metas[0].signature_def.items() if metas else ()) if key != _INIT}
    signature = signatures.get("serving_default") or next((signatures[key] for key in sorted(signatures)), None)
    if signature is None:
        raise InvalidInput(f"A SavedModel must have a signature, got {path.name!r}, which has none", field="path")
    definition = metas[0].graph_def
    library = {function.signature.name: function for function in definition.library.function}
    inlining = _Inlining(library, _Budget())
    outputs = [signature.outputs[key].name for key in sorted(signature.outputs)]
    graph = inlining.finished(inlining.nodes(definition.node, {}, outputs, ""))
    graph.arguments = [
        Argument(key, info.name, tf.TensorShape(info.tensor_shape), tf.as_dtype(info.dtype))
        for key, info in sorted(signature.inputs.items())
    ]
    return graph


class _Inlining:
    """Creates operations from nodes, inlining function calls."""

    def __init__(self, library: dict[str, Any], budget: _Budget) -> None:
        self._library = library
        self._budget = budget
        self._graph = Graph(library, budget)
        self._made: list[Operation] = []
        self._deep = 0

    def argument(self, name: str, like: Tensor) -> Tensor:
        """Return a tensor for an argument passed in from outside the function."""
        node = tf.compat.v1.NodeDef(name=name, op="Placeholder")
        return Tensor(Operation(name, node, [], self._graph), 0, like.shape, like.dtype)

    def finished(self, outputs: list[Tensor]) -> Graph:
        """Return the graph, extended by one operation per output that uses this output."""
        for number, tensor in enumerate(outputs):
            node = tf.compat.v1.NodeDef(name=f"output_{number}", op="Identity")
            operation = Operation(node.name, node, [tensor], self._graph)
            operation.outputs = [Tensor(operation, 0, tensor.shape, tensor.dtype)]
            self._made.append(operation)
        self._graph.keep(
            self._made, [operation.outputs[0] for operation in self._made[len(self._made) - len(outputs) :]]
        )
        return self._graph

    def body(self, definition: Any, arguments: Sequence[Tensor], prefix: str) -> list[Tensor]:
        """Inline a function with these arguments. Returns its outputs."""
        if self._deep >= MAX_CALLS_DEEP:
            raise InvalidInput(
                f"A SavedModel's functions must call each other at most {MAX_CALLS_DEEP} levels deep, got more",
                field="path",
            )
        self._deep += 1
        names = [argument.name for argument in definition.signature.input_arg]
        returned = [definition.ret[output.name] for output in definition.signature.output_arg]
        found = self.nodes(definition.node_def, dict(zip(names, arguments, strict=False)), returned, prefix)
        self._deep -= 1
        return found

    def nodes(self, nodes: Iterable[Any], arguments: dict[str, Tensor], wanted: list[str], prefix: str) -> list[Tensor]:
        """Create operations from nodes. Returns the tensors that the references in ``wanted`` name."""
        nodes = _in_order(nodes)
        outputs: dict[str, list[Tensor]] = {}
        places: dict[str, dict[str, int]] = {}

        def tensor(reference: str) -> Tensor | None:
            node, *rest = reference.split(":")
            if node in arguments:
                return arguments[node]
            start = places.get(node, {}).get(rest[0], 0) if len(rest) == 2 else 0
            index = start + int(rest[-1]) if rest else 0
            there = outputs.get(node, [])
            return there[index] if 0 <= index < len(there) else None

        for node in nodes:
            self._budget.take()
            inputs = [found for name in node.input if not name.startswith("^") if (found := tensor(name)) is not None]
            name = f"{prefix}{node.name}"
            called = self._library.get(node.attr["f"].func.name if node.op in _CALLS else node.op)
            if called is not None:
                outputs[node.name] = self.body(called, inputs, f"{name}/")
                arguments_out = called.signature.output_arg
                places[node.name] = {output.name: number for number, output in enumerate(arguments_out)}
                continue
            operation = Operation(name, node, inputs, self._graph)
            places[node.name], types = _outputs(node)
            shapes = node.attr["_output_shapes"].list.shape if "_output_shapes" in node.attr else ()
            operation.outputs = [
                Tensor(operation, number, _shape(operation, shapes, number), dtype)
                for number, dtype in enumerate(types)
            ]
            self._made.append(operation)
            outputs[node.name] = operation.outputs
        return [found for reference in wanted if (found := tensor(reference)) is not None]


_CALLS = ("StatefulPartitionedCall", "PartitionedCall")


def _in_order(nodes: Iterable[Any]) -> list[Any]:
    """Sort nodes so that each node follows the nodes that it depends on, except in cycles."""
    nodes = list(nodes)
    by_name = {node.name: node for node in nodes}
    done: dict[str, Any] = {}
    begun: set[str] = set()
    for first in nodes:
        waiting = [first]
        while waiting:
            node = waiting[-1]
            before = [] if node.name in begun else [name.lstrip("^").split(":")[0] for name in node.input]
            begun.add(node.name)
            missing = [by_name[name] for name in before if name in by_name and name not in begun]
            if missing:
                waiting += reversed(missing)
            else:
                waiting.pop()
                done.setdefault(node.name, node)
    return list(done.values())


def _outputs(node: Any) -> tuple[dict[str, int], list[tf.DType]]:
    """Return the index of the first tensor of each output of a node, keyed by the output's name, and all dtypes."""
    definition = op_def_registry.get(node.op)
    if definition is None:  # an operation from another library
        count = len(node.attr["_output_shapes"].list.shape) if "_output_shapes" in node.attr else 1
        return {}, [tf.float32] * count
    places: dict[str, int] = {}
    types: list[tf.DType] = []
    for output in definition.output_arg:
        places[output.name] = len(types)
        if output.type_list_attr:
            there = [tf.as_dtype(type_) for type_ in node.attr[output.type_list_attr].list.type]
        else:
            count = node.attr[output.number_attr].i if output.number_attr else 1
            if not 0 <= count <= _MAX_OUTPUTS:
                raise InvalidInput(
                    f"An operation must have at most {_MAX_OUTPUTS} outputs, got {count} of {node.name!r:.100}",
                    field="path",
                )
            there = [tf.as_dtype(output.type or node.attr[output.type_attr].type or tf.float32)] * count
        types += there
    return places, types


def _shape(operation: Operation, shapes: Sequence[Any], number: int) -> tf.TensorShape:
    if number < len(shapes):
        return tf.TensorShape(shapes[number])
    if operation.type in ("Identity", "Cast") and operation.inputs:
        return operation.inputs[0].shape
    return tf.TensorShape(None)
