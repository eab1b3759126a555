"""The order in which a ``tf.function`` runs collectives."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import tensorflow as tf


class ProgramOrder:
    """Runs collectives in a ``tf.function`` in the order in which the program calls them.

    TensorFlow orders the uses of one variable as the program does, also between nested functions, in loops and in the
    branches of a condition; other stateful operations only within one graph. Without that, two tasks might begin two
    collectives in different order. There is one order for all sets of tasks that this process is in: between those,
    too, two tasks could wait for each other.
    """

    def __init__(self) -> None:
        # Not at the first call: a tf.function in whose trace a variable comes to be is traced a second time.
        self._baton = _baton()

    def __call__(self, collective: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
        """Call ``collective`` such that its ops come after those of the calls before."""
        if not in_function():
            return collective()
        graph: Any = tf.compat.v1.get_default_graph()
        # What a function's derivative consists of is a graph whose uses of variables TensorFlow does not order.
        before = getattr(graph, _LAST, [])
        with tf.control_dependencies([read(self._baton), *before]):
            outputs = collective()
        with tf.control_dependencies(outputs):
            done = add(self._baton, 1)
        setattr(graph, _LAST, [done])
        return outputs


_LAST = "_jupyter_dtf_last_collective"
"""Where a graph keeps what ends its last collective."""


def read(variable: Any) -> tf.Tensor:
    """The variable's value, anywhere in a function."""
    return tf.raw_ops.ReadVariableOp(resource=_handle(variable), dtype=variable.dtype)


def add(variable: Any, value: int) -> Any:
    """Add to the variable, anywhere in a function; returns the op."""
    return tf.raw_ops.AssignAddVariableOp(resource=_handle(variable), value=tf.constant(value, variable.dtype))


def put(variable: Any, value: tf.Tensor) -> Any:
    """Set the variable, anywhere in a function; returns the op."""
    return tf.raw_ops.AssignVariableOp(resource=_handle(variable), value=value)


def _handle(variable: Any) -> tf.Tensor:
    return _captured(variable.handle, tf.compat.v1.get_default_graph()) if in_function() else variable.handle


def _captured(handle: Any, graph: Any) -> Any:
    """The handle in that graph, handed down from graph to graph.

    The derivative of a branch or a loop can use only what that has, and finds it in the graph around it.
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
    """Whether a ``tf.function`` is traced here, and not eager code run or a graph of TensorFlow 1 built."""
    if not getattr(tf.compat.v1.get_default_graph(), "building_function", False):
        return False
    with tf.init_scope():  # a branch or a loop of a graph of TensorFlow 1 is a function as well
        return bool(tf.executing_eagerly())


def in_graph() -> bool:
    """Whether a graph of TensorFlow 1 is built here."""
    return not tf.executing_eagerly() and not in_function()
