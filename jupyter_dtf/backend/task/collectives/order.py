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
        with tf.control_dependencies([self._baton.read_value()]):
            outputs = collective()
        with tf.control_dependencies(outputs):
            self._baton.assign_add(1, read_value=False)
        return outputs


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
