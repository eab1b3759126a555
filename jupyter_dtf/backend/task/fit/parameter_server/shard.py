"""The variables of one ``ps`` task, and their optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ..gradient_sync import has_own_apply_gradients, update_directly
from . import slots
from .layout import Piece
from .messages import ServedAttributes


@dataclass(frozen=True)
class SparsePiece:
    """Rows of the gradient of a piece."""

    piece: int
    indices: npt.NDArray[np.int64]
    keys: npt.NDArray[np.int64] | None
    """The ids of rows that several workers have in common (``lookups``); None if there are no such rows."""
    rows: npt.NDArray[Any]


@dataclass(frozen=True)
class Gradient:
    """A worker's mean gradient over its examples. Pieces are identified by their index among this server's pieces."""

    examples: int
    dense: npt.NDArray[Any]
    """All pieces that are neither absent nor sparse, flattened and concatenated."""
    sparse: tuple[SparsePiece, ...] = ()
    absent: tuple[int, ...] = ()
    counts: bool = False
    """Whether the step is made with gradients of zeros if no worker has examples."""

    @property
    def kind(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The indices of the absent pieces, and those of the sparse pieces."""
        return self.absent, tuple(part.piece for part in self.sparse)


def mean(gradients: Sequence[Gradient]) -> Gradient | None:
    """Return the mean of workers' gradients, weighted by their numbers of examples, or None if there are no examples.

    Raises ValueError if the gradients are not for the same variables.
    """
    given = [gradient for gradient in gradients if gradient.examples]
    if len(given) < 2:
        return given[0] if given else None
    total = sum(gradient.examples for gradient in given)
    kinds = {gradient.kind for gradient in given}
    if len(kinds) > 1:
        raise ValueError(f"`gradients` of a step must be for the same variables, got {sorted(kinds)}")
    dense = np.zeros_like(given[0].dense)
    for gradient in given:
        dense += gradient.dense * dense.dtype.type(gradient.examples / total)
    sparse = []
    for parts in zip(*(gradient.sparse for gradient in given), strict=True):
        rows = [part.rows * part.rows.dtype.type(g.examples / total) for part, g in zip(parts, given, strict=True)]
        indices = np.concatenate([part.indices for part in parts])
        keys = None if parts[0].keys is None else np.concatenate([part.keys for part in parts])
        sparse.append(_merged(SparsePiece(parts[0].piece, indices, keys, np.concatenate(rows))))
    return Gradient(total, dense, tuple(sparse), given[0].absent)


def _merged(sparse: SparsePiece) -> SparsePiece:
    """Merge rows with the same key into one row by adding them."""
    if sparse.keys is None:
        return sparse
    alone = sparse.keys < 0
    _, first, places = np.unique(sparse.keys[~alone], return_index=True, return_inverse=True)
    sums = np.zeros((len(first), *sparse.rows.shape[1:]), sparse.rows.dtype)
    np.add.at(sums, places, sparse.rows[~alone])
    indices = np.concatenate([sparse.indices[alone], sparse.indices[~alone][first]])
    return SparsePiece(sparse.piece, indices, None, np.concatenate([sparse.rows[alone], sums]))


class Shard:
    """A server's variables and slots, and their updates. Not thread-safe.

    ``variables`` are the model's trainable variables; only this server's pieces of them are kept. If there is only one
    server, the model's own ``optimizer`` makes the updates, otherwise an optimizer that is built for the pieces.
    """

    def __init__(self, variables: list[Any], optimizer: Any, pieces: list[Piece], dtype: Any, servers: int = 1) -> None:
        self.pieces = pieces
        self.dtype = dtype
        self._held = [_held(variables[piece.variable], piece) for piece in pieces]
        self.optimizer, own = slots.for_pieces(optimizer, variables, pieces, self._held, servers)
        self._state = [*self._held, *own]
        update_directly(self.optimizer)
        self._steps: dict[Any, Any] = {}
        self._look = tf.function(self._present)
        self._last_kind: tuple[tuple[int, ...], tuple[int, ...]] = (), ()
        self.values: npt.NDArray[Any] = np.zeros(0, dtype)
        """All pieces, flattened and concatenated. Every change creates a new array."""
        self.iterations = 0
        self.learning_rate = 0.0

    def set_learning_rate(self, rate: float) -> None:
        if rate != self.learning_rate:
            self.optimizer.learning_rate = rate

    def apply(self, gradient: Gradient) -> None:
        """Update the variables with one gradient."""
        key = self._last_kind = gradient.kind
        if key not in self._steps:
            self._steps[key] = self._step(*key)
        sparse = [(tf.constant(part.indices), tf.constant(part.rows)) for part in gradient.sparse]
        self._keep(self._steps[key](tf.constant(gradient.dense), sparse))

    def apply_zeros(self) -> None:
        """Update the variables with gradients of zeros, as Keras does for a batch without examples."""
        absent, sparse = self._last_kind
        size = sum(piece.size for i, piece in enumerate(self.pieces) if i not in absent and i not in sparse)
        rows = [np.zeros((0, *self.pieces[i].shape[1:]), self.dtype) for i in sparse]
        nothing = np.zeros(0, np.int64)
        parts = tuple(SparsePiece(i, nothing, None, each) for i, each in zip(sparse, rows, strict=True))
        self.apply(Gradient(0, np.zeros(size, self.dtype), parts, absent))

    @property
    def variables(self) -> list[Any]:
        """The variables in the layout of ``slots.Plan``."""
        return list(self._state)

    def state(self) -> list[npt.NDArray[Any]]:
        """Return the arrays in the layout of ``slots.Plan``."""
        return [variable.numpy() for variable in self._state]

    def shapes(self) -> list[tuple[Any, int]]:
        """Return the (dtype, size) of each array of the state."""
        return [(np.dtype(tf.as_dtype(v.dtype).as_numpy_dtype), int(np.prod(v.shape))) for v in self._state]

    def set_state(self, arrays: list[npt.NDArray[Any]]) -> None:
        for variable, array in zip(self._state, arrays, strict=True):
            variable.assign(array.reshape(variable.shape))
        self._keep(self._look())

    def replace(self, values: dict[int, npt.NDArray[Any]]) -> None:
        """Replace the values of some pieces. ``values`` is keyed by the index of the piece in ``pieces``."""
        for i, value in values.items():
            self._held[i].assign(value.reshape(self.pieces[i].shape))
        self._keep(self._look())

    def set_attributes(self, changed: Sequence[ServedAttributes], *, anew: bool) -> None:
        """Set attributes of the optimizer and of constraints. ``anew``: see ``messages.SetAttributes``."""
        for each in changed:
            for holder in self._holders(each):
                for name, value in each.values.items():
                    setattr(holder, name, value)
        if anew:
            self._steps = {}

    def _holders(self, each: ServedAttributes) -> list[Any]:
        if each.variable is not None:
            held = zip(self.pieces, self._held, strict=True)
            return [variable.constraint for piece, variable in held if piece.variable == each.variable]
        holder: Any = self.optimizer
        for name in each.path:
            holder = holder[name] if isinstance(name, int) else getattr(holder, name)
        return [holder]

    def _step(self, absent: tuple[int, ...], sparse: tuple[int, ...]) -> Any:
        """Return the graph function that makes an update, for gradients with these absent and sparse pieces."""
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
                shape = tf.constant(self.pieces[i].shape, tf.int64)
                gradients[i] = tf.IndexedSlices(tf.cast(values, self._held[i].dtype), indices, shape)
            self._update({i: gradients[i] for i in sorted(gradients)})
            return self._present()

        return step

    def _update(self, gradients: dict[int, Any]) -> None:
        optimizer, variables = self.optimizer, [self._held[i] for i in gradients]
        if not gradients:  # other servers have gradients, so do the optimizer's once-per-step work here, too
            optimizer._backend_apply_gradients([], [])
            optimizer._iterations.assign_add(1)
        elif has_own_apply_gradients(optimizer):
            optimizer.apply_gradients(zip(gradients.values(), variables, strict=True))
        else:
            optimizer.apply(list(gradients.values()), variables)

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
