"""The execution order of collectives in a ``tf.function``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import tensorflow as tf


class ProgramOrder:
    """Runs collectives in a ``tf.function`` in program order.

    Otherwise, two tasks might start two collectives in different orders. TensorFlow keeps the program order of all uses
    of one variable, even across nested functions, loops and conditional branches, but keeps that of other stateful
    operations only within one graph. Therefore, all collectives use the same variable, even those of different sets of
    tasks, because tasks could also deadlock across sets.
    """

    def __init__(self) -> None:
        # Created here, not in the first call: a tf.function that creates a variable while being traced is traced again.
        self._baton = _baton()

    def __call__(self, collective: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
        """Call ``collective`` so that its ops run after those of earlier calls."""
        if not in_function():
            return collective()
        graph: Any = tf.compat.v1.get_default_graph()
        # TensorFlow does not order the uses of variables in the graph of a function's derivative.
        before = getattr(graph, _LAST, [])
        with tf.control_dependencies([read(self._baton), *before]):
            outputs = collective()
        with tf.control_dependencies(outputs):
            done = add(self._baton, 1)
        setattr(graph, _LAST, [done])
        return outputs


_LAST = "_jupyter_dtf_last_collective"
"""The name of the graph attribute with the op that ends the graph's last collective."""


def read(variable: Any) -> tf.Tensor:
    """Read a variable, at any nesting level of a function."""
    return tf.raw_ops.ReadVariableOp(resource=_handle(variable), dtype=variable.dtype)


def add(variable: Any, value: int) -> Any:
    """Add to a variable, at any nesting level of a function. Returns the op."""
    return tf.raw_ops.AssignAddVariableOp(resource=_handle(variable), value=tf.constant(value, variable.dtype))


def put(variable: Any, value: tf.Tensor) -> Any:
    """Set a variable, at any nesting level of a function. Returns the op."""
    return tf.raw_ops.AssignVariableOp(resource=_handle(variable), value=value)


def _handle(variable: Any) -> tf.Tensor:
    return _captured(variable.handle, tf.compat.v1.get_default_graph()) if in_function() else variable.handle


def _captured(handle: Any, graph: Any) -> Any:
    """Return the handle in a graph, captured through all enclosing graphs.

    The derivative of a branch or loop can only use the captures of that branch or loop, and gets their values from the
    enclosing graph.
    """
    around = getattr(graph, "outer_graph", None)
    if hasattr(graph, "_forward_graph"):
        return graph.capture(_captured(handle, graph._forward_graph))
    if getattr(around, "building_function", False):
        return graph.capture(_captured(handle, around))
    return graph.capture(handle)


@cache
def _baton() -> Any:
    with tf.init_scope(), tf.device("CPU:0"):
        return tf.Variable(0, dtype=tf.int64, trainable=False)


def in_function() -> bool:
    """Return whether a ``tf.function`` is being traced, as opposed to eager code or a TensorFlow 1 graph."""
    if not getattr(tf.compat.v1.get_default_graph(), "building_function", False):
        return False
    with tf.init_scope():  # a branch or loop in a TensorFlow 1 graph is a function, too
        return bool(tf.executing_eagerly())


def in_graph() -> bool:
    """Return whether a TensorFlow 1 graph is being built."""
    return not tf.executing_eagerly() and not in_function()
