"""Handles the changes that a model's layers make to its variables when they are called for the microbatches of a step.

One process calls the model once per step, so each layer makes its assignments once. Here, the model is called for each
microbatch:

* Assignments that do not depend on the batch (a kernel divided by its norm) are equal in all microbatches, and must
  happen once: every microbatch starts with the step's initial values, and the rest of the step uses the assigned
  values.
* The results of assignments that depend on the batch (a moving average) are passed from one microbatch to the next.
  Trainable weights cannot be passed like this: one process computes all derivatives for the same values.
* State that belongs to examples (as in a stateful RNN) is split like the batch.

As with ordinary variables, derivatives do not pass through an assignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from .....errors import InvalidInput
from ...model.model_state import is_seed
from .follow import DATA_SCOPE
from .pipeline_graph import PipelineGraph


class Values:
    """Variables and the tensors that represent them. ``split``: the variables that exist only as parts, each with its
    parts.
    """

    def __init__(self, pairs: Sequence[tuple[Any, tf.Tensor]], split: Sequence[tuple[Any, Sequence[Any]]] = ()) -> None:
        self.pairs = list(pairs)
        self.split = split
        self._tensors = {id(variable): value for variable, value in pairs}
        self._parts = {id(variable): parts for variable, parts in split}

    def __getitem__(self, variable: Any) -> tf.Tensor:
        return self._tensors[id(variable)]

    def parts(self, variable: Any) -> list[tf.Tensor]:
        """Return the values of the parts of a split variable."""
        return [self[part] for part in self._parts[id(variable)]]

    @property
    def mapping(self) -> list[tuple[Any, tf.Tensor]]:
        """The mapping for a ``StatelessScope``, including every variable of the model that exists only as parts."""
        return [*self.pairs, *((variable, tf.concat(self.parts(variable), -1)) for variable, _ in self.split)]

    def changed(self, changes: dict[int, tf.Tensor]) -> Values:
        """Return a copy with some values replaced. ``changes``: the new values, keyed by the variables' ids."""
        return Values([(variable, changes.get(id(variable), value)) for variable, value in self.pairs], self.split)


class Assignments(keras.StatelessScope):
    """A scope in which variables have the values of tensors, and assignments to them are recorded.

    ``cut``: for variables that have one row per example, the microbatch's rows, keyed by the variable's id. Assignments
    to a variable without a value are made directly.
    """

    def __init__(self, values: Values, cut: dict[int, tf.Tensor] | None = None) -> None:
        super().__init__(values.mapping, collect_losses=True)
        self.values = values
        self.state_mapping.update(cut or {})
        self.made: dict[int, list[tf.Tensor]] = {}
        """The values assigned to each variable, in order of assignment, keyed by the variable's id."""

    def add_update(self, update: tuple[Any, Any]) -> None:
        variable, value = update
        if id(variable) not in self.state_mapping:
            variable._direct_assign(value)
            return
        if not isinstance(value.graph, PipelineGraph):
            raise InvalidInput(
                "A layer that is called for each microbatch must assign its weights outside of conditions and loops, "
                f"got {variable.path} assigned inside one. Return the value from there, and assign it afterwards",
                field="model",
            )
        value = tf.stop_gradient(value)
        self.made.setdefault(id(variable), []).append(value)
        self.state_mapping[id(variable)] = value

    def sources(self, variable: Any) -> list[tf.Tensor]:
        """Return all tensors that have represented a variable. The variable's derivative is the sum of the derivatives
        with respect to these tensors.
        """
        return [self.values[variable], *self.made.get(id(variable), [])]


class Microbatches:
    """Tracks the variables of a model over the microbatches of a step, which starts with ``values``.

    ``count``: the total number of microbatches in all copies. ``per_example``: the variables with one row per example.
    """

    def __init__(self, values: Values, count: int, per_example: Sequence[Any]) -> None:
        self._begin = values
        self._count = count
        self._per_example = per_example
        self._rows: dict[int, list[tf.Tensor]] = {id(variable): [] for variable in per_example}
        self._fixed: dict[int, tf.Tensor] = {}
        self._ends: list[dict[int, tf.Tensor]] = []
        self._dependent = _Dependent()

    def scope(self, copy: int, low: tf.Tensor, high: tf.Tensor) -> Assignments:
        """Return the scope for the next microbatch of a copy, which has the rows ``low`` to ``high`` of the batch."""
        if copy == len(self._ends):
            self._ends.append({})
        values = self._begin if copy == 0 else _with_other_seeds(self._begin, copy)
        cut = {id(variable): values[variable][low:high] for variable in self._per_example}
        return Assignments(values.changed(self._ends[copy]), cut)

    def ended(self, copy: int, scope: Assignments) -> None:
        """Record the assignments of a microbatch."""
        for variable, _ in self._begin.pairs:
            if id(variable) not in scope.made:
                continue
            value = scope.made[id(variable)][-1]
            if id(variable) in self._rows:
                self._rows[id(variable)].append(value)
            elif is_seed(variable) or self._dependent(value):
                if variable.trainable and self._count > 1:
                    raise InvalidInput(
                        "A value that a layer assigns to a trainable weight in its call must not depend on the batch, "
                        f"got an assignment to {variable.path} in each of {self._count} microbatches. Otherwise, train "
                        "with microbatches=1",
                        field="strategy.microbatches",
                    )
                self._ends[copy][id(variable)] = value
            else:
                self._fixed.setdefault(id(variable), value)

    def end(self) -> Values:
        """Return the variables after all microbatches. Floating-point values that several copies have changed are
        averaged.
        """
        changes = dict(self._fixed)
        for variable in self._per_example:
            if rows := self._rows[id(variable)]:
                changes[id(variable)] = tf.ensure_shape(tf.concat(rows, 0), variable.shape)
        for key in {key for end in self._ends for key in end}:
            first = self._ends[0].get(key, None)
            moved = [end[key] for end in self._ends if key in end]
            is_mean = moved[0].dtype.is_floating and len(moved) > 1
            changes[key] = tf.add_n(moved) / len(moved) if is_mean else moved[0] if first is None else first
        return self._begin.changed(changes)


class _Dependent:
    """A function that returns whether a tensor depends on the batch."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}

    def __call__(self, tensor: tf.Tensor) -> bool:
        waiting = [tensor.op]
        while waiting:
            operation = waiting[-1]
            before = [one.op for one in operation.inputs]
            unknown = [one for one in before if one.name not in self._known]
            if operation.name.startswith(f"{DATA_SCOPE}/"):
                self._known[operation.name] = True
            elif unknown:
                waiting += unknown
                continue
            else:
                self._known[operation.name] = any(self._known[one.name] for one in before)
            waiting.pop()
        return self._known[tensor.op.name]


def depends_on_batch() -> _Dependent:
    """Return a function that returns whether a tensor depends on the batch.

    It caches its results, so the inputs of existing operations must not change.
    """
    return _Dependent()


def _with_other_seeds(values: Values, copy: int) -> Values:
    """Return the initial values of a copy, with its own random seeds."""
    return values.changed(
        {
            id(v): value + tf.constant([copy * 0x9E3779B1 % 2**32, 0], value.dtype)
            for v, value in values.pairs
            if is_seed(v)
        }
    )
