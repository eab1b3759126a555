"""Counts the floating-point operations of TensorFlow operations, based on their static shapes."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from .saved_graph import Graph

_MOVES = {
    "Assert", "Cast", "Concat", "ConcatV2", "Const", "EnsureShape", "ExpandDims", "Fill", "Gather", "GatherNd",
    "GatherV2", "Identity", "IdentityN", "Pack", "Pad", "PadV2", "Placeholder", "Range", "ReadVariableOp",
    "ResourceGather", "Reshape", "ReverseV2", "Shape", "Slice", "Split", "SplitV", "Squeeze", "StopGradient",
    "StridedSlice", "Tile", "Transpose", "Unpack", "VarHandleOp", "ZerosLike",
}  # fmt: skip
"""The types of operations that do no arithmetic."""


def of_operation(operation: tf.Operation) -> int:
    """Return the number of floating-point operations: two for each multiply-add, one for each element of the results of
    other arithmetic, and 0 if shapes are unknown.
    """
    kind = operation.type
    if kind in _MOVES or not operation.outputs:
        return 0
    output = operation.outputs[0]
    if not output.dtype.is_floating and kind not in ("While", "StatelessWhile"):
        return 0
    if kind in ("While", "StatelessWhile"):
        return _of_loop(operation)
    if output.shape.rank is None:
        return 0
    size = _size(output)
    if kind == "MatMul":
        return 2 * size * _dim(operation.inputs[0], 0 if operation.get_attr("transpose_a") else 1)
    if kind in ("BatchMatMulV2", "BatchMatMul"):
        return 2 * size * _dim(operation.inputs[0], -2 if operation.get_attr("adj_x") else -1)
    if kind == "Einsum":
        return 2 * _einsum(operation)
    if kind in ("Conv2D", "Conv3D"):
        return 2 * size * int(math.prod(operation.inputs[1].shape[:-1]))
    if kind == "DepthwiseConv2dNative":
        return 2 * size * int(math.prod(operation.inputs[1].shape[:2]))
    return size


def _of_loop(operation: tf.Operation) -> int:
    """Count a loop's body once per element of the sequence that it iterates over, as in Keras's recurrent layers."""
    return sum(map(of_operation, _body(operation))) * _steps(operation)


def _body(loop: tf.Operation) -> Any:
    name = loop.get_attr("body").name
    if isinstance(loop.graph, Graph):
        return loop.graph.function(name, loop.inputs)
    function = loop.graph._get_function(name)
    return function.graph.get_operations() if function is not None else []


def _steps(operation: tf.Operation) -> int:
    """Return the length of the sequences that the loop iterates over; 1 if there are none."""
    sequences = [t.op.inputs[0] for t in operation.inputs if t.op.type == "TensorListFromTensor"]
    return max((_dim(sequence, 0) for sequence in sequences), default=1)


def _einsum(operation: tf.Operation) -> int:
    equation = operation.get_attr("equation").decode()
    sizes: dict[str, int] = {}
    for labels, tensor in zip(equation.split("->")[0].split(","), operation.inputs, strict=True):
        spread = tensor.shape.rank - len(labels.replace("...", ""))
        expanded = labels.replace("...", "".join(chr(0xE000 + i) for i in range(spread)))
        for label, size in zip(expanded, tensor.shape, strict=True):
            sizes[label] = max(sizes.get(label, 1), size or 1)
    return math.prod(sizes.values())


def _size(tensor: tf.Tensor) -> int:
    return math.prod(size or 1 for size in tensor.shape)


def _dim(tensor: tf.Tensor, axis: int) -> int:
    return int(tensor.shape[axis] or 1) if tensor.shape.rank else 1
