"""Derivatives in the graph, each on the device of its operation, and their sums over microbatches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ..provenance import are_distinct


def gradients_of(
    targets: Sequence[tf.Tensor], sources: Sequence[tf.Tensor], given: Any = None, constant: Any = None
) -> list[Any]:
    """Return the derivatives of the sum of ``targets``: dense, IndexedSlices for rows of a table, or None.

    ``given``: the incoming derivatives of the targets, by default all 1. A target whose incoming derivative is None is
    left out. ``constant``: tensors that derivatives do not pass through.
    """
    given = [tf.ones_like(target) for target in targets] if given is None else given
    pairs = [(target, slope) for target, slope in zip(targets, given, strict=True) if slope is not None]
    if not pairs:
        return [None] * len(sources)
    ys, slopes = zip(*pairs, strict=True)
    return list(
        tf.compat.v1.gradients(
            list(ys), list(sources), list(slopes), colocate_gradients_with_ops=True, stop_gradients=constant
        )
    )


class Sum:
    """The derivative with respect to one variable: a sum over the loss, the microbatches, and the variable's tensors.

    The result equals that of one process. It is dense if any part is dense. Derivatives for rows of a table are
    concatenated, because an optimizer may square the derivative of each row separately. One process looks up rows that
    do not depend on the batch, such as position embeddings, only once, so the microbatches' derivatives for these rows
    are added up. So are those of rows that are looked up once for each distinct index. ``depends`` returns whether
    indices depend on the batch.
    """

    def __init__(self, depends: Callable[[tf.Tensor], bool]) -> None:
        self._depends = depends
        self._dense: tf.Tensor | None = None
        self._rows: list[tf.IndexedSlices] = []
        self._same_rows: list[tf.IndexedSlices] = []
        self._distinct: list[list[tf.IndexedSlices]] = []
        """For each lookup of distinct indices, its rows from all microbatches."""

    def add(self, derivatives: Sequence[Any]) -> None:
        """Add the derivatives of a microbatch, or of the loss: for each tensor of the variable, a dense tensor,
        IndexedSlices or None.
        """
        same, distinct = [], []
        for piece in [piece for derivative in derivatives for piece in _pieces(derivative)]:
            if not isinstance(piece, tf.IndexedSlices):
                self._dense = piece if self._dense is None else self._dense + piece
            elif not self._depends(piece.indices):
                same.append(piece)
            elif are_distinct(piece.indices):
                distinct.append([piece])
            else:
                self._rows.append(piece)
        self._add_same(same)
        self._add_distinct(distinct)

    def join(self, other: Sum) -> None:
        """Add the sum of another copy of the pipeline."""
        self.add([other._dense, *other._rows])
        self._add_same(other._same_rows)
        self._add_distinct(other._distinct)

    def total(self) -> Any:
        """Return the sum, as a dense tensor or IndexedSlices, or None if there were no derivatives."""
        rows = [*self._rows, *self._same_rows, *map(_once_each, self._distinct)]
        if self._dense is not None:
            return tf.add_n([self._dense, *map(tf.convert_to_tensor, rows)])
        if len(rows) < 2:
            return rows[0] if rows else None
        indices = tf.concat([tf.cast(one.indices, tf.int64) for one in rows], 0)
        return tf.IndexedSlices(tf.concat([one.values for one in rows], 0), indices, rows[0].dense_shape)

    def _add_same(self, same: Sequence[tf.IndexedSlices]) -> None:
        sums = self._same_rows
        for number, rows in enumerate(same):
            if number == len(sums):
                sums.append(rows)
            else:
                sums[number] = tf.IndexedSlices(sums[number].values + rows.values, rows.indices, rows.dense_shape)

    def _add_distinct(self, distinct: Sequence[list[tf.IndexedSlices]]) -> None:
        for number, rows in enumerate(distinct):
            if number == len(self._distinct):
                self._distinct.append([])
            self._distinct[number] += rows


def _once_each(parts: Sequence[tf.IndexedSlices]) -> tf.IndexedSlices:
    """Return the sum of all rows of each index."""
    if len(parts) == 1:
        return parts[0]
    indices, places = tf.unique(tf.concat([tf.cast(part.indices, tf.int64) for part in parts], 0))
    values = tf.math.unsorted_segment_sum(tf.concat([part.values for part in parts], 0), places, tf.size(indices))
    return tf.IndexedSlices(values, indices, parts[0].dense_shape)


def _pieces(derivative: Any) -> list[Any]:
    """Return the parts of a derivative: one per lookup if it consists of the rows of several lookups."""
    if derivative is None:
        return []
    if not isinstance(derivative, tf.IndexedSlices):
        return [tf.convert_to_tensor(derivative)]
    values, indices = derivative.values.op, derivative.indices.op
    if values.type == indices.type == "ConcatV2" and len(values.inputs) == len(indices.inputs):
        return [
            piece
            for rows, numbers in zip(values.inputs[:-1], indices.inputs[:-1], strict=True)
            for piece in _pieces(tf.IndexedSlices(rows, numbers, derivative.dense_shape))
        ]
    return [derivative]
