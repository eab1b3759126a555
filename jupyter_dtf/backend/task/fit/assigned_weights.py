"""Assignments to a model's weights outside of its optimizer: in a layer's ``call``, or around ``apply``.

Examples: a spectral norm that divides its kernel, weights that are clipped after each update, a counter. They are
read from the graph of the step, or, if the step is run eagerly, recorded when they are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import tensorflow as tf

# TensorFlow 2.21: which resources an operation writes is not available elsewhere.
from tensorflow.python.framework.auto_control_deps_utils import get_read_write_resource_inputs

from ....errors import InvalidInput
from .provenance import Provenance, captured
from .replaced_attributes import hooked

_WRITES = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")


class Outside:
    """Watches the weights of a built model while a step is traced or run eagerly.

    ``agree(weights)`` is called for those that the step has assigned, before an optimizer is applied and at the end.
    """

    def __init__(self, model: Any, agree: Callable[[list[Any]], None]) -> None:
        self._agree = agree
        self._provenance: Provenance | None = None
        self._weights = list(model.weights)
        self._handles = {id(variable.value.handle): i for i, variable in enumerate(self._weights)}
        self._graph: Any = None
        self._start = 0
        self._eager: set[int] = set()

    @contextmanager
    def watched(self, provenance: Provenance | None) -> Iterator[None]:
        """Watch the step inside this context. ``provenance``: of its tensors; None if it is run eagerly."""
        self._provenance = provenance
        self.pass_over()
        with ExitStack() as stack:
            if tf.executing_eagerly():
                for i, variable in enumerate(self._weights):
                    assign = partial(self._note, i, variable._direct_assign)
                    stack.enter_context(hooked(variable, _direct_assign=assign))
            yield
            self.settle()

    def settle(self) -> None:
        """Agree on the assignments so far.

        Raises InvalidInput if a weight that an optimizer trains is assigned a value that depends on a task's own
        examples.
        """
        assigned = self._assigned()
        if assigned:
            self._agree(assigned)
        self.pass_over()

    def pass_over(self) -> None:
        """Ignore the assignments so far."""
        self._eager = set()
        self._graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        self._start = len(self._graph.get_operations()) if self._graph is not None else 0

    def _assigned(self) -> list[Any]:
        if self._graph is None:
            return [self._weights[i] for i in sorted(self._eager)]
        graph = tf.compat.v1.get_default_graph()
        operations = graph.get_operations()[self._start if graph is self._graph else 0 :]
        found: set[int] = set()
        for operation in operations:
            if not any(tensor.dtype == tf.resource for tensor in operation.inputs):
                continue
            for handle in get_read_write_resource_inputs(operation)[1]:
                index = self._index(handle)
                if index is not None:
                    found.add(index)
                    if operation.type in _WRITES and self._provenance is not None:
                        refuse_by_example(self._weights[index], operation.inputs[1], self._provenance)
        return [self._weights[i] for i in sorted(found)]

    def _index(self, handle: Any) -> int | None:
        while handle is not None:
            if id(handle) in self._handles:
                return self._handles[id(handle)]
            handle = captured(handle)
        return None

    def _note(self, index: int, assign: Callable[[Any], Any], value: Any) -> Any:
        self._eager.add(index)
        return assign(value)


def refuse_by_example(variable: Any, value: Any, provenance: Provenance) -> None:
    """Raise InvalidInput if a trainable weight is assigned a value that depends on the examples."""
    if variable.trainable and provenance.of(value).values:
        raise InvalidInput(
            "`model`: what a step assigns to a trainable weight must not depend on the batch, of which every task has "
            f"its own share, got an assignment of such a value to {variable.path}. Make it a weight with "
            "trainable=False: these are averaged over the tasks",
            field="model",
        )


def flattened(variables: list[Any]) -> tf.Tensor:
    """Return a 1 and the variables' values, concatenated, in float64.

    The sum of equal vectors divided by their number is then bitwise equal to each of them.
    """
    parts = [tf.reshape(tf.cast(variable.value, tf.float64), [-1]) for variable in variables]
    return tf.concat([tf.ones([1], tf.float64), *parts], 0)


def take_mean(variables: list[Any], total: tf.Tensor) -> None:
    """Set the variables to the mean over several tasks. ``total``: the sum of the tasks' ``flattened`` variables.

    If it is a sum over no tasks, nothing changes.
    """
    sizes = [int(tf.TensorShape(variable.shape).num_elements()) for variable in variables]
    means = tf.split(total[1:] / tf.maximum(total[0], 1.0), sizes)
    for variable, mean in zip(variables, means, strict=True):
        mean = tf.cast(tf.reshape(mean, variable.shape), variable.dtype)
        variable.assign(tf.where(total[0] > 0, mean, variable.value))
