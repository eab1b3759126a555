"""Finds logs of a step that are computed from the states of metrics alone, such as ``1 - accuracy``.

The value of such a log in one task depends on the examples of this task. For all tasks together, it is computed again
from the combined states, by the same operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from .metric_states import state_variables
from .provenance import captured

_ASSIGNMENTS = frozenset({"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"})


class DerivedLogs:
    """The logs of one step of ``model`` that are computed from the states of metrics alone."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._found: dict[str, Callable[[], Any]] = {}
        self._values = tf.function(self.again, autograph=False)

    def note(self, outputs: Any) -> None:
        """Find such logs among the outputs of a step that has just been traced. None are found in an eager step."""
        if tf.executing_eagerly() or not isinstance(outputs, dict):
            return
        variables = {id(_handle(variable)): variable for variable in state_variables(self._model)}
        derived = ((name, _derivation(value, variables)) for name, value in outputs.items())
        self._found = {name: compute for name, compute in derived if compute is not None}
        self._values = tf.function(self.again, autograph=False)

    def again(self) -> dict[str, Any]:
        """Return the values of these logs for the metrics' current states. Called in a graph."""
        return {name: compute() for name, compute in self._found.items()}

    def values(self) -> dict[str, Any]:
        """Return the values of these logs for the metrics' current states."""
        return dict(self._values()) if self._found else {}


def _handle(variable: Any) -> Any:
    return getattr(variable, "value", variable).handle if hasattr(variable, "_value") else variable.handle


def _derivation(tensor: Any, variables: dict[int, Any]) -> Callable[[], Any] | None:
    """Return a function that computes ``tensor`` again, in another graph, or None if the tensor does not depend on the
    final values of ``variables`` alone. They are keyed by the ids of their handles.
    """
    if not isinstance(tensor, tf.Tensor):
        return None
    nodes = tf.compat.v1.GraphDef()
    reads: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    done: set[str] = set()
    waiting = [tensor.op]
    while waiting:
        operation = waiting.pop()
        if operation.name in done:
            continue
        done.add(operation.name)
        if operation.type == "ReadVariableOp":
            variable = variables.get(id(_outermost(operation.inputs[0])))
            if variable is None or _is_assigned_after(operation):
                return None
            reads[operation.outputs[0].name] = variable
        elif operation.type == "Placeholder":
            value = _outermost(operation.outputs[0])
            if not isinstance(value, tf.__internal__.EagerTensor) or value.dtype in (tf.resource, tf.variant):
                return None
            constants[operation.outputs[0].name] = value
        else:
            node = _portable(operation)
            if node is None:
                return None
            nodes.node.append(node)
            waiting += [each.op for each in operation.inputs]
    if not reads:
        return None
    if tensor.name in reads:
        return lambda: tf.convert_to_tensor(reads[tensor.name])

    def compute() -> Any:
        given = {name: tf.convert_to_tensor(variable) for name, variable in reads.items()}
        given |= {name: tf.convert_to_tensor(value) for name, value in constants.items()}
        return tf.graph_util.import_graph_def(nodes, input_map=given, return_elements=[tensor.name], name="derived")[0]

    return compute


def _outermost(tensor: Any) -> Any:
    """Return the tensor outside of all functions that is captured as ``tensor``, or ``tensor`` itself."""
    while (outer := captured(tensor)) is not None:
        tensor = outer
    return tensor


def _is_assigned_after(read: Any) -> bool:
    """Return whether a variable is changed after this operation has read it."""
    handle = _outermost(read.inputs[0])
    operations = read.graph.get_operations()
    later = operations[operations.index(read) + 1 :]
    return any(each.type in _ASSIGNMENTS and _outermost(each.inputs[0]) is handle for each in later)


def _portable(operation: Any) -> Any:
    """Return a definition of an operation for another graph, or None if it has state or calls functions."""
    node = tf.compat.v1.NodeDef()
    node.CopyFrom(operation.node_def)
    if operation.op_def.is_stateful or any(value.HasField("func") or value.list.func for value in node.attr.values()):
        return None
    kept = [name for name in node.input if not name.startswith("^")]
    del node.input[:]
    node.input.extend(kept)
    node.device = ""
    node.attr.pop("_class", None)
    return node
