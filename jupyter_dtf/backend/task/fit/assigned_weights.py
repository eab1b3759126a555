"""Finds assignments to a model's weights that are made outside of its optimizer: in a layer's ``call``, or before or
after the optimizer's ``apply``.

Examples: the division of a kernel in spectral normalization, the clipping of weights after each update, a counter. The
assignments are read from the graph of the step, or, if the step is run eagerly, recorded when they are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import tensorflow as tf

# TensorFlow 2.21: no public function returns the resources that an operation writes.
from tensorflow.python.framework.auto_control_deps_utils import get_read_write_resource_inputs

from ....errors import InvalidInput
from .provenance import Provenance, captured
from .replaced_attributes import hooked

_WRITES = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")


class Outside:
    """Watches the weights of a built model while a step is traced or run eagerly.

    ``agree(weights, before)`` is called for the weights that the step has assigned, before an optimizer is applied and
    at the end of the step. ``before`` has one element for each of these weights: if ``may_be_empty`` is set (a task may
    get a batch without examples) and the weight is not trainable, its value before the assignment; otherwise None.
    """

    def __init__(
        self, model: Any, agree: Callable[[list[Any], list[tf.Tensor | None]], None], may_be_empty: bool
    ) -> None:
        self._agree = agree
        self._may_be_empty = may_be_empty
        self._provenance: Provenance | None = None
        self._weights = list(model.weights)
        self._before: list[tf.Tensor | None] = []
        self._handles = {id(variable.value.handle): i for i, variable in enumerate(self._weights)}
        self._graph: Any = None
        self._start = 0
        self._eager: set[int] = set()

    @contextmanager
    def watched(self, provenance: Provenance | None) -> Iterator[None]:
        """Watch the step inside this context. ``provenance``: the provenance of the step's tensors; None: the step is
        run eagerly.
        """
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
        """Call ``agree`` for the weights that the step has assigned since the last call.

        Raises InvalidInput if a weight that an optimizer trains is assigned a value that depends on a task's own
        examples.
        """
        assigned = self._assigned()
        if assigned:
            self._agree([self._weights[i] for i in assigned], [self._before[i] for i in assigned])
        self.pass_over()

    def pass_over(self) -> None:
        """Ignore the assignments made so far."""
        self._eager = set()
        self._graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        self._before = [
            variable.value.read_value() if self._may_be_empty and not variable.trainable else None
            for variable in self._weights
        ]
        self._start = len(self._graph.get_operations()) if self._graph is not None else 0

    def _assigned(self) -> list[int]:
        """Return the indices of the weights assigned since the last ``pass_over``. Raises the same errors as
        ``settle``.
        """
        if self._graph is None:
            return sorted(self._eager)
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
        return sorted(found)

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
        raise by_example(variable)


def by_example(variable: Any) -> InvalidInput:
    """Return the error for a trainable weight that is assigned a value that depends on the examples."""
    return InvalidInput(
        "`model`: a value that a step assigns to a trainable weight must not depend on the batch, because every task "
        f"has only its own share of it, but a step assigns such a value to {variable.path}. Create this weight with "
        "trainable=False: such weights are averaged over the tasks",
        field="model",
    )


def flattened(variables: list[Any], before: list[tf.Tensor | None]) -> tf.Tensor:
    """Return the number 1, the variables' values and the values of ``before`` that are not None, concatenated in
    float64.

    In float64, the sum of equal vectors divided by their number is bitwise equal to each vector.
    """
    values = [*(variable.value for variable in variables), *(value for value in before if value is not None)]
    return tf.concat([tf.ones([1], tf.float64), *(tf.reshape(tf.cast(v, tf.float64), [-1]) for v in values)], 0)


def take_mean(variables: list[Any], before: list[tf.Tensor | None], total: tf.Tensor) -> None:
    """Set the variables to the mean over several tasks. ``total``: the sum of the tensors that ``flattened`` returned
    on these tasks.

    A variable that differed from the tasks' mean before the step keeps its value, because this task computes it from
    its own examples. If no task has contributed to ``total``, nothing changes.
    """
    has_before = [value is not None for value in before]
    changed = [*variables, *(v for v, has in zip(variables, has_before, strict=True) if has)]
    sizes = [int(tf.TensorShape(variable.shape).num_elements()) for variable in changed]
    means = tf.split(total[1:] / tf.maximum(total[0], 1.0), sizes)
    means_before = iter(means[len(variables) :])
    for variable, mean, has in zip(variables, means, has_before, strict=False):
        takes = total[0] > 0
        if has:
            own = tf.reshape(tf.cast(variable.value, tf.float64), [-1])
            takes &= tf.reduce_all(own == next(means_before))
        mean = tf.cast(tf.reshape(mean, variable.shape), variable.dtype)
        variable.assign(tf.where(takes, mean, variable.value))
