"""The graph that a pipeline is built on, and how code for a ``tf.function`` behaves as in one there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

# TensorFlow 2.21: the runtime context has no public API for this.
from tensorflow.python.eager import context

# TensorFlow 2.21: the class of tf.function objects is not exported, and its calls are watched.
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

from .....errors import InvalidInput


class PipelineGraph(tf.Graph):
    """A graph in which code runs as in a ``tf.function``, for a session.

    In any other graph of a session ``==`` compares tensors by identity, ``tf.init_scope`` stays in the graph, and what
    is eager is refused. Here eager tensors become constants, and ``hold(handle)`` gives the handle that stands for that
    of an eager variable. What has effects is neither ordered nor kept: see ``effects``. ``client``: the device of this
    process, which alone can call Python functions.
    """

    def __init__(self, client: str) -> None:
        super().__init__()
        self.client = client
        self.hold: Callable[[tf.Tensor], tf.Tensor] = _refused
        self.refusal: InvalidInput | None = None
        """The last one, which TensorFlow and Keras wrap in errors of their own."""
        self.outer_graph = tf.Graph()
        """What loops and conditions take for the graph that this one, as a function, would be called in."""
        self.captures: tuple[Any, ...] = ()
        """What TensorFlow asks of a function's graph: none, for ``capture`` says what stands for a tensor itself."""
        # Both before it becomes the default graph: TensorFlow notes then what it is.
        self._building_function = True
        self._add_control_dependencies = True  # within conditions and loops
        self.seed = context.global_seed()

    def capture(self, tensor: Any, name: str | None = None, shape: Any = None) -> tf.Tensor:
        """What stands for a tensor in this graph; called by TensorFlow."""
        if tf.is_symbolic_tensor(tensor):
            return tensor
        try:
            if tensor.dtype == tf.resource:
                return self.hold(tensor)
            if tensor.dtype == tf.variant:
                raise not_held(tensor)
        except InvalidInput as refusal:
            self.refusal = refusal
            raise
        return tf.constant(tensor.numpy(), tensor.dtype, name=name)


def pipeline_graph(graph: Any) -> PipelineGraph | None:
    """The pipeline's graph that a graph is, or is a function in."""
    while graph is not None and not isinstance(graph, PipelineGraph):
        graph = getattr(graph, "outer_graph", None)
    return graph


@contextmanager
def as_function() -> Iterator[None]:
    """While this lasts, the caller's ``tf.function``s are traced at each call in a pipeline's graph.

    What a function has captured is of the microbatch that it was traced for: another gets a trace of its own.
    """
    original = Function.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        in_pipeline = pipeline_graph(tf.compat.v1.get_default_graph()) is not None
        return original(self._clone(None) if in_pipeline else self, *args, **kwargs)

    Function.__call__ = call
    try:
        yield
    finally:
        Function.__call__ = original


def _refused(handle: tf.Tensor) -> tf.Tensor:
    raise not_held(handle)


def not_held(tensor: tf.Tensor) -> InvalidInput:
    return InvalidInput(
        "What the layers, losses and metrics of a pipeline hold must be variables and tensors: a table, a dataset or "
        "a summary writer stays in the process that made it. Apply layers that look words up to the data, got a "
        f"{tensor.dtype.name} tensor",
        field="model",
    )
