"""The graph of a pipeline, in which code written for a ``tf.function`` behaves as it does in a ``tf.function``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

# TensorFlow 2.21: no public function returns the global seed.
from tensorflow.python.eager import context

# TensorFlow 2.21: the class of tf.function objects, whose calls are intercepted here, is not exported.
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

from .....errors import InvalidInput


class PipelineGraph(tf.Graph):
    """A graph for a session, in which code runs as in a ``tf.function``.

    In any other graph of a session, ``==`` compares tensors by identity, ``tf.init_scope`` stays in the graph, and
    eager tensors are rejected. Here, eager tensors become constants, and ``hold(handle)`` returns the graph's handle
    for an eager variable's handle. Unlike in a ``tf.function``, operations with effects are neither ordered nor kept:
    see ``effects``. ``client``: the device of this process, the only one that can call Python functions.
    """

    def __init__(self, client: str) -> None:
        super().__init__()
        self.client = client
        self.hold: Callable[[tf.Tensor], tf.Tensor] = _refused
        self.refusal: InvalidInput | None = None
        """The last error that ``capture`` raised, kept because TensorFlow and Keras wrap it in errors of their own."""
        self.outer_graph = tf.Graph()
        """An empty graph. Loops and conditions expect a function's graph to have the graph of its caller here."""
        self.captures: tuple[Any, ...] = ()
        """Empty.

        TensorFlow requires this attribute in a function's graph, but ``capture`` itself returns replacements.
        """
        # Both must be set before this becomes the default graph, because TensorFlow records them at that moment.
        self._building_function = True
        self._add_control_dependencies = True  # within conditions and loops
        self.seed = context.global_seed()

    def capture(self, tensor: Any, name: str | None = None, shape: Any = None) -> tf.Tensor:
        """Return the replacement of a tensor in this graph. Called by TensorFlow."""
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
    """Return ``graph`` if it is a pipeline's graph, otherwise the pipeline's graph that encloses it; None if there is
    none.
    """
    while graph is not None and not isinstance(graph, PipelineGraph):
        graph = getattr(graph, "outer_graph", None)
    return graph


@contextmanager
def as_function() -> Iterator[None]:
    """Inside this context, retrace the caller's ``tf.function`` objects at each call in a pipeline's graph.

    The captures of a function belong to the microbatch that it was traced for, so each microbatch needs its own trace.
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
        "The state of a pipeline's layers, losses and metrics must be variables and tensors, because a table, a "
        "dataset or a summary writer exists only in the process that created it, got a "
        f"{tensor.dtype.name} tensor. Apply layers that look up words to the data",
        field="model",
    )
