"""The variables that one ``ps`` task holds, with their optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ..gradients import update_directly
from . import slots
from .layout import Piece


@dataclass(frozen=True)
class Gradient:
    """A worker's mean gradient over its examples: pieces by their position on this server."""

    examples: int
    dense: npt.NDArray[Any]
    """Of all pieces that are neither absent nor sparse, flattened, one after the other."""
    sparse: tuple[tuple[int, npt.NDArray[np.int64], npt.NDArray[Any]], ...] = ()
    """(piece, row numbers, rows)."""
    absent: tuple[int, ...] = ()


def mean(gradients: Sequence[Gradient]) -> Gradient | None:
    """The mean over all examples of workers' gradients; None if there are no examples.

    Raises ValueError if they are not of the same variables.
    """
    given = [gradient for gradient in gradients if gradient.examples]
    if len(given) < 2:
        return given[0] if given else None
    total = sum(gradient.examples for gradient in given)
    kinds = {(g.absent, tuple(piece for piece, *_ in g.sparse)) for g in given}
    if len(kinds) > 1:
        raise ValueError(f"The workers' gradients of a step are of the same variables. Received: {sorted(kinds)}")
    dense = np.zeros_like(given[0].dense)
    for gradient in given:
        dense += gradient.dense * dense.dtype.type(gradient.examples / total)
    sparse = []
    for parts in zip(*(gradient.sparse for gradient in given), strict=True):
        rows = [values * values.dtype.type(g.examples / total) for (_, _, values), g in zip(parts, given, strict=True)]
        sparse.append((parts[0][0], np.concatenate([indices for _, indices, _ in parts]), np.concatenate(rows)))
    return Gradient(total, dense, tuple(sparse), given[0].absent)


class Shard:
    """Variables, slots and the update. Not thread-safe.

    ``variables`` are the model's trainable ones; only the pieces of them are kept.
    """

    def __init__(self, variables: list[Any], optimizer: Any, pieces: list[Piece], dtype: Any) -> None:
        self.pieces = pieces
        self.dtype = dtype
        self.optimizer = slots.fresh(optimizer)
        self._held = [_held(variables[piece.variable], piece) for piece in pieces]
        excluded = [
            held
            for held, piece in zip(self._held, pieces, strict=True)
            if not optimizer._use_weight_decay(variables[piece.variable])
        ]
        if excluded:
            self.optimizer.exclude_from_weight_decay(var_list=excluded)
        found = slots.build(self.optimizer, self._held)
        order = sorted(range(len(found)), key=lambda i: _order(found[i]))
        self._state = [*self._held, *(self.optimizer.variables[i] for i in order)]
        update_directly(self.optimizer)
        self._steps: dict[Any, Any] = {}
        self._look = tf.function(self._present)
        self.values: npt.NDArray[Any] = np.zeros(0, dtype)
        """All pieces, flattened, one after the other; a new array after every change."""
        self.iterations = 0
        self.learning_rate = 0.0

    def set_learning_rate(self, rate: float) -> None:
        if rate != self.learning_rate:
            self.optimizer.learning_rate = rate

    def apply(self, gradient: Gradient) -> None:
        """Update the variables by one gradient."""
        key = (gradient.absent, tuple(piece for piece, *_ in gradient.sparse))
        if key not in self._steps:
            self._steps[key] = self._step(*key)
        sparse = [(tf.constant(indices), tf.constant(rows)) for _, indices, rows in gradient.sparse]
        self._keep(self._steps[key](tf.constant(gradient.dense), sparse))

    def state(self) -> list[npt.NDArray[Any]]:
        """Arrays laid out as ``slots.Plan`` says."""
        return [variable.numpy() for variable in self._state]

    def shapes(self) -> list[tuple[Any, int]]:
        """(dtype, size) of each array of the state."""
        return [(np.dtype(tf.as_dtype(v.dtype).as_numpy_dtype), int(np.prod(v.shape))) for v in self._state]

    def set_state(self, arrays: list[npt.NDArray[Any]]) -> None:
        for variable, array in zip(self._state, arrays, strict=True):
            variable.assign(array.reshape(variable.shape))
        self._keep(self._look())

    def _step(self, absent: tuple[int, ...], sparse: tuple[int, ...]) -> Any:
        """The update as a graph: for gradients of which these pieces are absent, and those sparse."""
        dense = [i for i in range(len(self.pieces)) if i not in absent and i not in sparse]
        sizes = [self.pieces[i].size for i in dense]
        specs = [
            (tf.TensorSpec([None], tf.int64), tf.TensorSpec([None, *self.pieces[i].shape[1:]], self.dtype))
            for i in sparse
        ]

        @tf.function(input_signature=[tf.TensorSpec([sum(sizes)], self.dtype), specs], autograph=False)
        def step(flat: tf.Tensor, rows: Any) -> Any:
            gradients: dict[int, Any] = {}
            for i, part in zip(dense, tf.split(flat, sizes) if dense else [], strict=True):
                gradients[i] = tf.cast(tf.reshape(part, self.pieces[i].shape), self._held[i].dtype)
            for i, (indices, values) in zip(sparse, rows, strict=True):
                gradients[i] = tf.IndexedSlices(tf.cast(values, self._held[i].dtype), indices, self.pieces[i].shape)
            if gradients:
                chosen = sorted(gradients)
                self.optimizer.apply([gradients[i] for i in chosen], [self._held[i] for i in chosen])
            return self._present()

        return step

    def _present(self) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        parts = [tf.cast(tf.reshape(held.value, [-1]), self.dtype) for held in self._held]
        flat = tf.concat(parts, 0) if parts else tf.zeros([0], self.dtype)
        rate = tf.cast(tf.convert_to_tensor(self.optimizer.learning_rate), tf.float32)
        return flat, tf.identity(self.optimizer._iterations.value), rate

    def _keep(self, present: tuple[tf.Tensor, tf.Tensor, tf.Tensor]) -> None:
        values, iterations, rate = present
        self.values, self.iterations, self.learning_rate = values.numpy(), int(iterations), float(rate)


def _held(variable: Any, piece: Piece) -> Any:
    if piece.is_whole:
        return variable
    return keras.Variable(np.zeros(piece.shape), dtype=variable.dtype, name=variable.name)


def _order(slot: slots.Slot) -> tuple[bool, int, int]:
    return slot.variable is None, slot.variable or 0, slot.number
