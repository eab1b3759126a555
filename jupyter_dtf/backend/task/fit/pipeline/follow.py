"""Chooses devices for operations without a placement: each runs on the device of its largest input.

Thus, an addition between two layers, a loss, or an optimizer's arithmetic runs on the device that holds its data,
regardless of the code that adds it to the graph.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .pipeline_graph import pipeline_graph

DATA_SCOPE = "data"
"""The name scope of a batch's placeholders, which do not determine the device of other operations."""
_PYTHON = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})


def settle(operations: list[tf.Operation]) -> None:
    """Place operations without a device, such as constants, on the device of the first operation that uses them."""
    for operation in reversed(operations):
        if operation.device:
            continue
        users = (user.device for output in operation.outputs for user in output.consumers())
        device = next((device for device in users if device), "")
        if device:
            operation._set_device(device)


def within(device: str | None) -> Any:
    """Return a scope whose operations run on ``device``, or, if it is None, on the device of their largest input.

    Operations without inputs are placed by ``settle`` in that case. Operations that use a variable always run on the
    variable's device, and Python functions in the client's process.
    """

    def chosen(operation: tf.Operation) -> str:
        if operation.type in _PYTHON:
            graph = pipeline_graph(operation.graph)
            return "" if graph is None else graph.client
        said = tf.DeviceSpec.from_string(operation.device)
        if said.job is not None:
            return str(operation.device)
        place = tf.DeviceSpec.from_string(of(operation))
        return str((place.make_merged_spec(said) if operation.device else place).to_string())

    def of(operation: tf.Operation) -> str:
        inputs = [_outside(tensor) for tensor in operation.inputs]
        handles = [tensor for tensor in inputs if tensor.dtype == tf.resource]
        if device is not None and not handles:
            return device
        return str(max(handles or inputs, key=_pull).op.device) if inputs else ""

    return tf.compat.v1.device(chosen)


def _outside(tensor: Any) -> Any:
    """Return the outer tensor that an input of a function, such as the branch of a condition, represents."""
    while tensor.op.type == "Placeholder" and hasattr(tensor.graph, "captures"):
        found = next((outer for outer, inner in tensor.graph.captures if inner is tensor), None)
        if found is None or not tf.is_symbolic_tensor(found):
            break
        tensor = found
    return tensor


def _pull(tensor: tf.Tensor) -> tuple[bool, bool, int]:
    """Return a sort key that ranks tensors with a device highest, then tensors that are not part of the batch, then
    larger tensors.
    """
    known = tensor.shape.rank is not None
    size = 1
    for length in tensor.shape if known else ():
        size *= length or 1
    is_data = tensor.op.name.startswith(f"{DATA_SCOPE}/")
    return bool(tensor.op.device), not is_data, size
