"""Optimizers that apply the mean gradient over all examples of all tasks.

One sum per step and dtype carries everything that the tasks must agree on: each task's gradients times its number of
examples, and in three more float32 lanes that number, whether to stop, and the chief's learning rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from ..collectives.base import Reducer

_LANES = 3  # examples, stop, learning rate


@dataclass(frozen=True)
class Agreement:
    """What the last step's sum said."""

    examples: float
    """Of all tasks, in this step; 0 when every task's data have ended."""
    stop: bool
    learning_rate: float


class GradientSync:
    """Installs itself on a model's optimizers; afterwards each ``apply`` is a collective.

    While a step is traced or run eagerly, which ``begin`` announces, ``examples`` is the number of this task's examples
    in it, a scalar tensor.
    """

    def __init__(self, reducer: Reducer, may_end: bool) -> None:
        self._reducer = reducer
        self.may_end = may_end
        self._stop = tf.Variable(0.0, trainable=False, dtype=tf.float32)
        self._stop_wanted = False
        self._agreements: list[tf.Variable] = []
        self.examples: tf.Tensor | None = None
        self.applied = False
        """Whether an optimizer was applied in the step being traced."""
        self.collectives: list[tuple[Callable[[], Any], Any]] = []
        """What a task without examples does to take part in that step, in order, and the graph each belongs to."""

    def install(self, optimizer: Any) -> None:
        """Make the optimizer's ``apply`` a collective. The class stays: a saved model must not know of this."""
        agreement = tf.Variable(tf.zeros(_LANES), trainable=False)
        name = f"{len(self._agreements)}"
        self._agreements.append(agreement)
        apply = optimizer.apply

        def collective_apply(grads: Any, trainable_variables: Any = None) -> None:
            grads = list(grads)
            variables = list(trainable_variables) if trainable_variables is not None else optimizer._trainable_variables
            kept = [v for g, v in zip(grads, variables, strict=True) if g is not None]
            self.applied = True
            self._note(lambda: optimizer.apply([tf.zeros(v.shape, v.dtype) for v in kept], kept))
            reduced = self._reduce(optimizer, grads, variables, agreement, name)
            if self.may_end:  # the step after the last has no example on any task: nothing may change
                tf.cond(agreement[0] > 0, lambda: _nothing(apply(reduced, variables)), lambda: _nothing(None))
            else:
                apply(reduced, trainable_variables)

        optimizer.apply = collective_apply
        _update_directly(getattr(optimizer, "inner_optimizer", optimizer))

    def ask_to_stop(self) -> None:
        """All tasks will learn it in the next step."""
        if not self._stop_wanted:
            self._stop_wanted = True
            self._stop.assign(1.0)

    @property
    def agreement(self) -> Agreement:
        """What the tasks agreed on in the step that was last."""
        rows = [a.numpy() for a in self._agreements]
        return Agreement(float(rows[-1][0]), any(row[1] > 0 for row in rows), float(rows[0][2]))

    def begin(self, examples: tf.Tensor) -> None:
        """A step is being traced, or run eagerly, with so many examples on this task."""
        self.examples = examples
        self.applied = False
        self.collectives = []

    def sum(self, values: tf.Tensor) -> tf.Tensor:
        """The sum over the tasks of a few numbers that do not depend on the weights, within a step."""
        name = f"values {len(self.collectives)}"
        self._note(lambda: self._reducer.sum_tensor(tf.zeros(values.shape, values.dtype), name))
        return tf.stop_gradient(self._reducer.sum_tensor(tf.stop_gradient(values), name))

    def _note(self, without_examples: Callable[[], Any]) -> None:
        self.collectives.append((without_examples, tf.compat.v1.get_default_graph()))

    def _reduce(
        self, optimizer: Any, grads: list[Any], variables: list[Any], agreement: tf.Variable, name: str
    ) -> list[Any]:
        assert self.examples is not None
        examples = tf.cast(self.examples, tf.float32)
        rate = optimizer.learning_rate  # a variable, or what a schedule says for this iteration
        is_chief = self._reducer.rank == 0
        chiefs_rate = tf.cast(tf.convert_to_tensor(rate), tf.float32) if is_chief else tf.constant(0.0)
        lanes = tf.stack([examples, self._stop.read_value(), chiefs_rate])
        if self._reducer.size == 1:
            agreement.assign(lanes)
            return grads
        groups: dict[tf.DType, list[int]] = {tf.float32: []}
        for index, grad in enumerate(grads):
            if grad is not None:
                grads[index] = grad = tf.convert_to_tensor(grad)
                groups.setdefault(tf.float64 if grad.dtype == tf.float64 else tf.float32, []).append(index)
        total = None
        for dtype, indices in groups.items():
            flat = [tf.reshape(tf.cast(grads[i], dtype), [-1]) for i in indices]
            sent = tf.concat(flat, 0) * tf.cast(examples, dtype) if flat else tf.zeros([0], dtype)
            if dtype == tf.float32:
                sent = tf.concat([sent, lanes], 0)
            received = self._reducer.sum_tensor(sent, f"gradients {name}")
            if dtype == tf.float32:
                received, lanes = received[:-_LANES], received[-_LANES:]
                agreement.assign(lanes)
                if isinstance(rate, keras.Variable):
                    rate.assign(lanes[2])
                total = tf.maximum(lanes[0], 1.0)
            mean = received / tf.cast(total, dtype)
            sizes = [math.prod(variables[i].shape) for i in indices]
            for i, part in zip(indices, tf.split(mean, sizes) if indices else [], strict=True):
                grads[i] = tf.cast(tf.reshape(part, variables[i].shape), grads[i].dtype)
        return grads


def _update_directly(optimizer: Any) -> None:
    """Update each variable by the optimizer's own rule, without the detour of Keras through ``tf.distribute``.

    There is no distribution strategy here, so the detour ends in the same call; but it costs a tenth of the time that
    the first step takes.
    """

    def update(grads: list[Any], variables: list[Any], learning_rate: Any) -> None:
        for grad, variable in zip(grads, variables, strict=True):
            held = variable.value if isinstance(variable, keras.Variable) else variable
            optimizer.update_step(grad, held, learning_rate)

    optimizer._backend_update_step = update


def _nothing(_: Any) -> tf.Tensor:
    return tf.constant(0)


def optimizers_of(model: Any) -> list[Any]:
    """The outermost Keras optimizers among the attributes of a model, ``model.optimizer`` first."""
    found: dict[int, Any] = {}
    for value in [model.optimizer, *vars(model).values()]:
        for leaf in _leaves(value):
            found.setdefault(id(leaf), leaf)
    inner = {id(o.inner_optimizer) for o in found.values() if hasattr(o, "inner_optimizer")}
    return [o for key, o in found.items() if key not in inner]


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, keras.optimizers.Optimizer):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
