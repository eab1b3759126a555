"""How the calls of a model's layers change its variables from microbatch to microbatch.

One process calls the model once per step, so a layer's assignment happens once. Here, it is called for each microbatch:

* Assignments that do not depend on the batch (a kernel divided by its norm) are the same for each, and count once:
  every microbatch starts with the step's initial values. The rest of the step continues with the assigned values.
* Assignments that depend on it (a moving average) are passed on in the order of the microbatches. For trainable weights
  there is no such order: one process computes all derivatives at the same value.
* The state of examples (of a stateful RNN) is split like the batch.

As with a variable, derivatives do not pass through an assignment.
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
    """Variables with the tensors that stand for them. ``split``: those that are kept only in parts."""

    def __init__(self, pairs: Sequence[tuple[Any, tf.Tensor]], split: Sequence[tuple[Any, Sequence[Any]]] = ()) -> None:
        self.pairs = list(pairs)
        self.split = split
        self._tensors = {id(variable): value for variable, value in pairs}
        self._parts = {id(variable): parts for variable, parts in split}

    def __getitem__(self, variable: Any) -> tf.Tensor:
        return self._tensors[id(variable)]

    def parts(self, variable: Any) -> list[tf.Tensor]:
        """Return the values of the parts of a variable that is split."""
        return [self[part] for part in self._parts[id(variable)]]

    @property
    def mapping(self) -> list[tuple[Any, tf.Tensor]]:
        """The mapping for a ``StatelessScope``, including every variable of the model that is kept in parts."""
        return [*self.pairs, *((variable, tf.concat(self.parts(variable), -1)) for variable, _ in self.split)]

    def changed(self, changes: dict[int, tf.Tensor]) -> Values:
        """Return a copy with changed values, by the variables' ids."""
        return Values([(variable, changes.get(id(variable), value)) for variable, value in self.pairs], self.split)


class Assignments(keras.StatelessScope):
    """A scope in which variables have the values of tensors, and assignments to them are recorded.

    ``cut``: the rows of variables that have one for each example, by id. A variable without a value is assigned
    directly.
    """

    def __init__(self, values: Values, cut: dict[int, tf.Tensor] | None = None) -> None:
        super().__init__(values.mapping, collect_losses=True)
        self.values = values
        self.state_mapping.update(cut or {})
        self.made: dict[int, list[tf.Tensor]] = {}
        """The values assigned to each variable, by id, in order."""

    def add_update(self, update: tuple[Any, Any]) -> None:
        variable, value = update
        if id(variable) not in self.state_mapping:
            variable._direct_assign(value)
            return
        if not isinstance(value.graph, PipelineGraph):
            raise InvalidInput(
                "A layer that is called for each microbatch must assign its weights outside of conditions and loops: "
                f"let these return what is assigned then, got {variable.path} assigned in one",
                field="model",
            )
        value = tf.stop_gradient(value)
        self.made.setdefault(id(variable), []).append(value)
        self.state_mapping[id(variable)] = value

    def sources(self, variable: Any) -> list[tf.Tensor]:
        """Return every tensor that stood for a variable: its derivative is the sum of those by all of them."""
        return [self.values[variable], *self.made.get(id(variable), [])]


class Microbatches:
    """The variables of a model over the microbatches of a step, which starts with ``values``.

    ``count``: the number of microbatches in all copies. ``per_example``: the variables that have a row for each
    example.
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
        """Return the scope for the next microbatch of a copy, with its rows of the batch."""
        if copy == len(self._ends):
            self._ends.append({})
        values = self._begin if copy == 0 else _with_other_seeds(self._begin, copy)
        cut = {id(variable): values[variable][low:high] for variable in self._per_example}
        return Assignments(values.changed(self._ends[copy]), cut)

    def ended(self, copy: int, scope: Assignments) -> None:
        """Record what a microbatch has assigned."""
        for variable, _ in self._begin.pairs:
            if id(variable) not in scope.made:
                continue
            value = scope.made[id(variable)][-1]
            if id(variable) in self._rows:
                self._rows[id(variable)].append(value)
            elif is_seed(variable) or self._dependent(value):
                if variable.trainable and self._count > 1:
                    raise InvalidInput(
                        "A layer that assigns a trainable weight in its call must compute it without the batch, or "
                        f"train with microbatches=1, got {variable.path}, assigned by each of {self._count} "
                        "microbatches",
                        field="strategy.microbatches",
                    )
                self._ends[copy][id(variable)] = value
            else:
                self._fixed.setdefault(id(variable), value)

    def end(self) -> Values:
        """Return the variables after all microbatches; those that each copy changes on its own are averaged."""
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
    """Determines whether a tensor depends on the batch."""

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
    """Return a function that tests whether tensors depend on the batch, for one graph that is not rewired."""
    return _Dependent()


def _with_other_seeds(values: Values, copy: int) -> Values:
    """Return a copy's initial values, with its own random numbers."""
    return values.changed(
        {
            id(v): value + tf.constant([copy * 0x9E3779B1 % 2**32, 0], value.dtype)
            for v, value in values.pairs
            if is_seed(v)
        }
    )
