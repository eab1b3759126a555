"""The graph that a pipeline is built on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf


class PipelineGraph(tf.Graph):
    """A graph in which Keras's code may be called as in a function of TensorFlow 2.

    In any other graph ``==`` compares tensors by identity, and the eager tensors that layers, regularizers and metrics
    hold are refused. Here, in ``as_function``, they become constants.
    """

    def __init__(self) -> None:
        super().__init__()
        self.outer_graph = tf.Graph()
        """What loops and conditions take for the graph that this one, as a function, would be called in."""

    def capture(self, tensor: Any, name: str | None = None, shape: Any = None) -> tf.Tensor:
        """What stands for a tensor in this graph; called by TensorFlow."""
        return tensor if tf.is_symbolic_tensor(tensor) else tf.constant(tensor.numpy(), tensor.dtype, name=name)


@contextmanager
def as_function() -> Iterator[None]:
    """While this lasts, the default graph, a ``PipelineGraph``, is to the code that is called as a function's."""
    graph = tf.compat.v1.get_default_graph()
    graph._building_function = True
    try:
        yield
    finally:
        graph._building_function = False
