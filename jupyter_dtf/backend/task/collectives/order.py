"""The order in which a ``tf.function`` runs collectives."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


class ProgramOrder:
    """Runs collectives in a ``tf.function`` in the order in which the program calls them.

    TensorFlow orders the uses of one variable as the program does, also between nested functions, in loops and in the
    branches of a condition; other stateful operations only within one graph. Without that, two tasks might begin two
    collectives in different order.
    """

    def __init__(self) -> None:
        # Not at the first call: a tf.function in whose trace a variable comes to be is traced a second time.
        with tf.init_scope(), tf.device("CPU:0"):
            self._baton = tf.Variable(0, dtype=tf.int64, trainable=False)

    def __call__(self, collective: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
        """Call ``collective`` such that its ops come after those of the calls before."""
        if not getattr(tf.compat.v1.get_default_graph(), "building_function", False):
            return collective()
        with tf.control_dependencies([self._baton.read_value()]):
            outputs = collective()
        with tf.control_dependencies(outputs):
            self._baton.assign_add(1, read_value=False)
        return outputs
