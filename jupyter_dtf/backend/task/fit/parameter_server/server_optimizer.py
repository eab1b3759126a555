"""An optimizer whose ``apply`` is an exchange with the ``ps`` tasks: it sends gradients and assigns new variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .....errors import InvalidInput
from ..arithmetic import Rows
from ..assigned_weights import Outside, flattened, take_mean
from ..gradient_sync import Agreement, has_own_apply_gradients
from ..learning_rate import LinearScaling
from ..lookups import Lookups
from .layout import Piece
from .messages import Place
from .server_client import Client


class Exchange:
    """The counterpart of all-reduce's ``GradientSync``. The code common to both strategies uses one or the other."""

    def __init__(
        self,
        model: Any,
        pieces: list[Piece],
        client: Client,
        *,
        may_end: bool = False,
        scaling: LinearScaling | None = None,
        meet: Callable[[tf.Tensor, str], tf.Tensor] | None = None,
        drops: bool = False,
    ) -> None:
        """Create the exchange.

        ``meet(tensor, name)`` sums a tensor over the training tasks; None if they are asynchronous. ``may_end``:
        whether an epoch may end with a step in which no task has examples. ``drops``: whether gradients that arrive too
        late are dropped.
        """
        self.may_end = may_end
        self._pieces = pieces
        self._variables = list(model.trainable_variables)
        self._positions = {id(variable): i for i, variable in enumerate(self._variables)}
        self._client = client
        self._scaling = scaling
        self._meet = meet
        self._drops = drops
        self._stop = False
        self._all_examples = 0
        self._steps_at_once = int(model.steps_per_execution)
        self._sent = 0  # the number of gradients sent since ``place`` was set
        self._place: Place | None = None
        self._counts = meet is not None and not may_end
        self.steps = 0
        """The number of gradients sent in this epoch, not counting a step without examples that ends it."""
        self.examples: tf.Tensor | None = None
        self.applied = False
        self.lookups: Lookups | None = None
        self.outside: Outside | None = None
        self._replaces = False
        self.collectives: list[tuple[Callable[[], Any], Any]] = []

    def install(self, optimizer: Any, is_chief: bool) -> None:
        """Make the optimizer's ``apply`` an exchange. The servers use the chief's learning rate."""
        self._replaces = is_chief or self._meet is None
        through_pairs = has_own_apply_gradients(optimizer)
        rate = optimizer.learning_rate if isinstance(optimizer._learning_rate, keras.Variable) else None

        def exchanging_apply(grads: Any, trainable_variables: Any = None, as_pairs: bool = False) -> None:
            variables = optimizer._trainable_variables if trainable_variables is None else list(trainable_variables)
            if through_pairs and not as_pairs:
                raise InvalidInput(
                    "Under parameter servers, a train_step must call apply_gradients of an optimizer that overrides "
                    f"it, got one that calls {type(optimizer).__name__}.apply",
                    field="model",
                )
            self.applied = True
            if self.outside is not None:
                self.outside.settle()
            kept = {
                self._positions[id(v)]: self._prepared(g)
                for g, v in zip(grads, variables, strict=True)
                if g is not None
            }
            if self.lookups is not None and self.lookups.looks_again:
                return
            self.note(lambda: self._exchange(optimizer, rate, is_chief, {}, tf.constant(0)))
            assert self.examples is not None
            self._exchange(optimizer, rate, is_chief, kept, self.examples)
            if self.outside is not None:
                self.outside.pass_over()

        def exchanging_apply_gradients(grads_and_vars: Any) -> Any:
            grads, variables = zip(*grads_and_vars, strict=True)
            exchanging_apply(grads, variables, as_pairs=True)
            return optimizer._iterations

        optimizer.apply = exchanging_apply
        optimizer.apply_gradients = exchanging_apply_gradients

    def _prepared(self, gradient: Any) -> Any:
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        keys = None
        if self.lookups is not None and self._meet is not None:  # otherwise, a gradient covers one task's batch
            keys = self.lookups.keys(gradient.indices)
        return Rows(gradient.values, tf.cast(gradient.indices, tf.int64), (), keys)

    def ask_to_stop(self) -> None:
        """Request that all tasks stop. The servers forward the request with the next steps."""
        self._stop = True

    @property
    def agreement(self) -> Agreement:
        """The values on which the tasks agree, according to the servers' last answer."""
        answered = self._client.answered
        return Agreement(float(self._all_examples), answered.stop, answered.learning_rate)

    @property
    def data_ended(self) -> bool:
        """Whether no task had examples in the last step."""
        return self._client.answered.examples == 0

    def begin_epoch(self, epoch: int, done: int = 0) -> None:
        """Start an epoch in which ``done`` steps have already been taken."""
        self.steps = done

    @property
    def place(self) -> Place | None:
        """The position of this task after its next gradient has been applied.

        Asynchronous tasks set this property to their current position before each execution of Keras's train function.
        """
        if self._place is None:
            return None
        more = min(self._sent + 1, self._steps_at_once)  # a step with several gradients counts as taken after the first
        return Place(self._place.epoch, self._place.within + more, self._place.steps + more)

    @place.setter
    def place(self, place: Place) -> None:
        self._place, self._sent = place, 0

    def begin(self, examples: tf.Tensor) -> None:
        """Begin tracing a step, or running it eagerly, with ``examples`` examples on this task."""
        self.examples = examples
        self.applied = False
        self.collectives = []

    def sum(self, values: tf.Tensor) -> tf.Tensor:
        """Return the sums over the tasks of a few numbers that do not depend on the weights. Called within a step."""
        if self._meet is None:  # then a gradient covers only this task's own batch
            return values
        if self.lookups is not None and self.lookups.looks_again:
            return values
        meet, name = self._meet, f"values {len(self.collectives)}"
        self.note(lambda: meet(tf.zeros(values.shape, values.dtype), name))
        return tf.stop_gradient(meet(tf.stop_gradient(values), name))

    @property
    def agrees(self) -> bool:
        """Whether assignments within a step must be sent to the servers: always True."""
        return True

    def settle(self, variables: list[Any], before: list[tf.Tensor | None], may_be_empty: bool) -> None:
        """Synchronize the values that a step has assigned to ``variables``.

        Tasks without examples adopt the values assigned on the other tasks. Trained variables are sent to the servers:
        from the chief if tasks are synchronous, otherwise from each task. ``before``: see ``Outside``.
        """
        trained = [variable for variable in variables if id(variable) in self._positions]
        if trained and self._drops:
            raise _assigned_beside(trained[0])
        if may_be_empty and self._meet is not None:
            meet, name, own = self._meet, f"assigned {len(self.collectives)}", flattened(variables, before)

            def without_examples() -> None:
                take_mean(variables, before, meet(tf.zeros(own.shape, own.dtype), name))
                self._replace(trained)

            self.note(without_examples)
            meet(own, name)
        self._replace(trained)

    def replace(self, variables: list[Any]) -> None:
        """Send the servers the values of the trained variables among ``variables``, if this task may replace them.

        Raises InvalidInput if any of them is trained and there are backup workers.
        """
        trained = [variable for variable in variables if id(variable) in self._positions]
        if trained and self._drops:
            raise _assigned_beside(trained[0])
        self._replace(trained)

    def _replace(self, variables: list[Any]) -> None:
        if not variables or not self._replaces:
            return
        positions = [self._positions[id(variable)] for variable in variables]

        done = np.int64(0)

        def replace(*values: Any) -> Any:
            self._client.replace(dict(zip(positions, values, strict=True)))
            return done

        tf.numpy_function(replace, [tf.cast(v.value, self._client.dtype) for v in variables], tf.int64)

    def assign(self, values: Any) -> None:
        """Set the model's variables to the concatenated flattened values of all pieces."""
        parts: dict[int, list[Any]] = {}
        sizes = [piece.size for piece in self._pieces]
        for piece, part in zip(self._pieces, tf.split(values, sizes), strict=True):
            parts.setdefault(piece.variable, []).append(tf.reshape(part, piece.shape))
        for i, rows in parts.items():  # pieces are ordered by server, and so are a variable's rows
            variable = self._variables[i]
            variable.assign(tf.cast(tf.concat(rows, 0) if len(rows) > 1 else rows[0], variable.dtype))

    def note(self, without_examples: Callable[[], Any]) -> None:
        """Record the function that a task without examples runs in place of this step's next collective."""
        self.collectives.append((without_examples, tf.compat.v1.get_default_graph()))

    def _exchange(self, optimizer: Any, rate: Any, is_chief: bool, grads: dict[int, Any], examples: tf.Tensor) -> None:
        """Push gradients, keyed by the indices of their variables, and assign the values in the answer to the
        variables.
        """
        sparse = {i: grad for i, grad in grads.items() if isinstance(grad, Rows)}
        absent = frozenset(range(len(self._variables))) - set(grads)
        dense = [
            tf.reshape(self._rows(tf.cast(grads[piece.variable], self._client.dtype), piece), [-1])
            for piece in self._pieces
            if piece.variable in grads and piece.variable not in sparse
        ]
        rows = [part for grad in sparse.values() for part in self._parts(grad)]
        sends_rate = is_chief and rate is not None

        def push(count: Any, own_rate: Any, flat: Any, *slices: Any) -> tuple[Any, np.int64, np.float32]:
            parts = iter(slices)
            sparse_rows = {
                i: (next(parts), None if grad.keys is None else next(parts), next(parts)) for i, grad in sparse.items()
            }
            sent_rate = self._scaled(float(own_rate)) if sends_rate else None
            values = self._client.push(
                examples=int(count),
                dense=flat,
                sparse=sparse_rows,
                absent=absent,
                learning_rate=sent_rate,
                stop=self._stop,
                counts=self._counts,
                place=self.place,
            )
            self._sent += 1
            answered = self._client.answered
            self._all_examples += answered.examples
            self.steps += self._counts or answered.examples > 0
            return values, np.int64(answered.iterations), np.float32(answered.learning_rate)

        values, iterations, new_rate = tf.numpy_function(
            push,
            [
                examples,
                tf.cast(rate, tf.float32) if sends_rate else tf.constant(0.0),
                tf.concat(dense, 0) if dense else tf.zeros([0], self._client.dtype),
                *rows,
            ],
            [self._client.dtype, tf.int64, tf.float32],
        )
        values.set_shape([sum(piece.size for piece in self._pieces)])
        self.assign(values)
        optimizer._iterations.assign(tf.reshape(iterations, []))
        if rate is not None and not is_chief:
            rate.assign(tf.reshape(new_rate, []))

    def _scaled(self, rate: float) -> float:
        if self._scaling is None:
            return rate
        return rate * float(self._scaling.factor(self._client.answered.version))

    def _parts(self, grad: Rows) -> list[tf.Tensor]:
        keys = [] if grad.keys is None else [tf.cast(grad.keys, tf.int64)]
        return [grad.indices, *keys, tf.cast(grad.values, self._client.dtype)]

    @staticmethod
    def _rows(grad: tf.Tensor, piece: Piece) -> tf.Tensor:
        return grad if piece.is_whole else grad[piece.first : piece.first + piece.rows]


def _assigned_beside(variable: Any) -> InvalidInput:
    return InvalidInput(
        "With backup_workers, only the optimizer may change weights within a step, because an assignment by a late "
        f"task would overwrite the updates of the other tasks, got an assignment to {variable.path}",
        field="model",
    )
