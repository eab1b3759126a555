"""Repeats training steps in one task on the whole batch, or on some of its shares.

The repetition reproduces intended differences: normalization layers compute their statistics, and random layers draw
their numbers, separately for each task's share of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ..model.model_state import held_variables
from .gradient_sync import optimizers_of
from .models import seed_of_task
from .own_parts import has_own_train_step
from .replaced_attributes import hooked, unhooked
from .steps import batch_size

Values = list[npt.NDArray[Any]]
"""The values of ``RepeatedStep.variables``, in the same order."""


@dataclass(frozen=True)
class Parts:
    """The division of a batch into ``count`` contiguous shares whose sizes differ by at most one example.

    ``in_turn``: whether one client processes the shares, and draws its random numbers for them, one after the other;
    otherwise, each task draws its own random numbers.
    """

    count: int
    in_turn: bool = False

    def bounds(self, examples: int) -> list[tuple[int, int]]:
        """Return the start and end of each share."""
        count = self.count if examples >= self.count else (min(self.count, examples) if self.in_turn else self.count)
        return list(pairwise(examples * number // count for number in range(count + 1)))


class RepeatedStep:
    """Runs training steps of a built ``model`` in this task alone, as if it were all of the ``parts.count`` tasks."""

    def __init__(self, model: Any, parts: Parts) -> None:
        self.model = model
        self.parts = parts
        self._optimizers = optimizers_of(model)
        slots = [variable for optimizer in self._optimizers for variable in optimizer.variables]
        variables = [*model.variables, *model.metrics_variables, *slots, *held_variables(model)]
        self.variables: list[Any] = list({id(v): v for v in variables}.values())
        """All variables that a step may change."""

    def position(self) -> dict[int, int]:
        """Return the index of each variable in ``variables``, keyed by the variable's id."""
        return {id(v): number for number, v in enumerate(self.variables)}

    def values(self) -> Values:
        """Return copies of the current values of ``variables``."""
        return [np.array(v.numpy()) for v in self.variables]

    def assign(self, values: Values) -> None:
        """Set ``variables``."""
        for variable, value in zip(self.variables, values, strict=True):
            variable.assign(value)

    def whole(self, batches: Sequence[Any]) -> tuple[Values, dict[int, Any]]:
        """Train on the batches. Return the resulting values, and the largest absolute gradients of the steps, keyed by
        the variables' ids.
        """
        gradients: dict[int, Any] = {}
        with ExitStack() as stack:
            for optimizer in self._optimizers:
                stack.enter_context(unhooked(optimizer))
                apply = partial(_noting_apply, optimizer, gradients)
                stack.enter_context(hooked(optimizer, apply=apply))
            for batch in batches:
                self._step(batch, 0, self.parts.count)
        return self.values(), gradients

    def shares(self, batch: Any, first: int, last: int) -> int:
        """Train on the shares of a batch from ``first`` up to, but not including, ``last``, as if they were one batch.
        Return their number of examples; if it is 0, nothing changes.
        """
        with ExitStack() as stack:
            for optimizer in self._optimizers:
                stack.enter_context(unhooked(optimizer))
            return self._step(batch, first, last)

    def measure(self, batch: Any, first: int, last: int) -> None:
        """Update the metrics with the shares of a batch from ``first`` up to, but not including, ``last``, as if they
        were one batch. A custom ``train_step``, which may update metrics itself, is run as in ``shares``.
        """
        if has_own_train_step(self.model):
            self.shares(batch, first, last)
        else:
            self._step(batch, first, last, keras.Model.test_step)

    def _step(self, batch: Any, first: int, last: int, step: Callable[[Any, Any], Any] | None = None) -> int:
        step = step or type(self.model).train_step
        bounds = list(enumerate(self.parts.bounds(int(batch_size(batch)))))[first:last]
        start, end = (bounds[0][1][0], bounds[-1][1][1]) if bounds else (0, 0)
        if end > start:
            shares = [(number, low - start, high - start) for number, (low, high) in bounds]
            data = batch
            if (first, last) != (0, self.parts.count):
                data = tf.nest.map_structure(lambda leaf: None if leaf is None else leaf[start:end], batch)
            with self._as_the_tasks_do(shares):
                step(self.model, data)
        return end - start

    @contextmanager
    def _as_the_tasks_do(self, shares: list[tuple[int, int, int]]) -> Iterator[None]:
        """Inside this context, layers that intentionally use only a task's share of the batch run once for each share.

        ``shares``: the number, start and end of each share.
        """
        with ExitStack() as stack:
            for layer in self.model._flatten_layers():
                generators = list(layer._seed_generators)
                if isinstance(layer, keras.layers.AugMix):
                    raise ValueError(f"{layer.name} uses Python's random numbers, which cannot be repeated")
                if generators and not _is_kerass(layer):
                    raise ValueError(f"{type(layer).__name__} draws random numbers, which differ between the tasks")
                if generators or isinstance(layer, keras.layers.BatchNormalization):
                    call = _by_share(layer.call, generators, shares, self.parts.in_turn)
                    stack.enter_context(hooked(layer, call=call))
            yield


def _noting_apply(optimizer: Any, gradients: dict[int, Any], grads: Any, trainable_variables: Any = None) -> Any:
    """Call the optimizer's own ``apply``, and record the largest absolute gradients of all steps so far."""
    grads = list(grads)
    variables = optimizer._trainable_variables if trainable_variables is None else list(trainable_variables)
    for gradient, variable in zip(grads, variables, strict=True):
        if gradient is not None:
            found = np.abs(tf.convert_to_tensor(gradient).numpy())
            gradients[id(variable)] = np.maximum(found, gradients.get(id(variable), 0.0))
    return type(optimizer).apply(optimizer, grads, trainable_variables)


def _is_kerass(layer: Any) -> bool:
    return type(layer).__module__.startswith("keras.")


def _by_share(
    call: Callable[..., Any],
    generators: list[Any],
    shares: list[tuple[int, int, int]],
    in_turn: bool,
) -> Callable[..., Any]:
    """Wrap a layer's ``call`` so that it runs once for each share of the batch, with that share's random numbers."""

    def call_by_share(*args: Any, **kwargs: Any) -> Any:
        states = [np.array(generator.state.numpy()) for generator in generators]
        examples = shares[-1][2]

        def share(number: int, low: int, high: int) -> Any:
            for generator, state in zip(generators, states, strict=True):
                if not in_turn:
                    generator.state.assign(seed_of_task(state, number))
            cut = partial(_cut, examples, low, high)
            return call(*tf.nest.map_structure(cut, list(args)), **tf.nest.map_structure(cut, kwargs))

        outputs = [share(number, low, high) for number, low, high in shares if high > low]
        if not in_turn:
            for generator, state in zip(generators, states, strict=True):
                generator.state.assign([state[0], generator.state.numpy()[1]])
        return tf.nest.map_structure(lambda *each: tf.concat(each, 0), *outputs)

    return call_by_share


def _cut(examples: int, low: int, high: int, leaf: Any) -> Any:
    """Return the share's rows of ``leaf`` if it is a tensor with one row per example, otherwise ``leaf`` itself."""
    if isinstance(leaf, tf.Tensor) and leaf.shape.rank and leaf.shape[0] == examples:
        return leaf[low:high]
    return leaf
