"""Accumulates the gradients of several batches on a task before they are reduced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from .arithmetic import Gradient, Rows, joined


class Accumulation:
    """The gradients of one optimizer, and their number of examples, accumulated since the last ``clear``."""

    def __init__(self) -> None:
        self._examples = tf.Variable(0.0, trainable=False)
        self._held: list[Any] | None = None

    def add(self, gradients: Sequence[Gradient], examples: tf.Tensor) -> None:
        """Add the gradients of a batch, multiplied by its number of examples. Every call must pass the gradients of the
        same variables, in the same order.
        """
        if self._held is None:
            with tf.init_scope():
                self._held = [_empty(gradient) for gradient in gradients]
        for held, gradient in zip(self._held, gradients, strict=True):
            if isinstance(gradient, Rows):
                for variable, part in zip(held, _parts(joined([_rows(held, gradient), gradient])), strict=True):
                    variable.assign(part)
            elif gradient is not None:
                held.assign_add(gradient)
        self._examples.assign_add(examples)

    def total(self, gradients: Sequence[Gradient]) -> tuple[list[Gradient], tf.Tensor]:
        """Return the accumulated gradients and their number of examples. ``gradients``: the gradients that were passed
        to the last ``add``, which determine whether each total is dense or ``Rows``, and its shape.
        """
        assert self._held is not None
        totals: list[Gradient] = []
        for held, gradient in zip(self._held, gradients, strict=True):
            if isinstance(gradient, Rows):
                totals.append(_rows(held, gradient))
            else:
                totals.append(None if held is None else held.read_value())
        return totals, self._examples.read_value()

    def clear(self) -> None:
        for held in self._held or []:
            for variable in held if isinstance(held, tuple) else [held]:
                if variable is not None:
                    variable.assign(tf.zeros([n or 0 for n in variable.shape], variable.dtype))
        self._examples.assign(0.0)


def _parts(rows: Rows) -> list[tf.Tensor]:
    return [part for part in (rows.values, rows.indices, rows.keys) if part is not None]


def _rows(held: tuple[Any, ...], like: Rows) -> Rows:
    values, indices, *keys = (variable.read_value() for variable in held)
    return Rows(values, indices, like.shape, *keys)


def _empty(gradient: Gradient) -> Any:
    """Return a zero variable for a dense gradient; for ``Rows``, empty variables for the values, the indices and, if
    present, the keys.
    """
    if gradient is None:
        return None
    if not isinstance(gradient, Rows):
        return tf.Variable(tf.zeros(gradient.shape, gradient.dtype), trainable=False)
    shapes = [[*part.shape[1:]] for part in _parts(gradient)]
    return tuple(
        tf.Variable(tf.zeros([0, *shape], part.dtype), trainable=False, shape=[None, *shape])
        for part, shape in zip(_parts(gradient), shapes, strict=True)
    )
