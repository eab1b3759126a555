"""Finds the rows of an embedding's gradient that every task has a copy of, but that one process would have only once.

A row of a ``tf.IndexedSlices`` belongs to one index of a lookup. Words are looked up per example: one process has the
rows of all examples side by side, and so do the tasks together. Positions are looked up once per batch: one process has
one row for each position, and this row is the sum of the tasks' rows. The words of sparse inputs are looked up once
for each distinct word: one process has one row for each word of the batch, which is again the sum of the tasks' rows
for this word. Keras's optimizers square rows before they add up
the rows of the same index, so the two cases differ. The graph of the step shows which case applies to a lookup
(``provenance``): rows that must be added up have the same key, and ``arithmetic.merged`` adds them up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from ....errors import InvalidInput
from .provenance import Provenance, Sharing

Part = tuple[tf.Tensor, Sharing]
"""A contiguous part of a gradient's indices, and which of its rows the tasks have in common."""


class Lookups:
    """Finds the keys of the gradient rows of a step, while the step is traced or run eagerly.

    ``step`` is the model's own ``train_step``. If the current trace does not suffice, because there is none or because
    the batch size is a constant in it, the step is traced once more for batches of any size. The additional trace is
    never run, and ``looks_again`` is True while it is made: ``apply`` then only needs to call ``keys``.
    """

    def __init__(self, step: Callable[[Any], Any]) -> None:
        self._step = step
        self._data: Any = None
        self._provenance: Provenance | None = None
        self._seen: list[list[Part]] | None = None
        self._known: list[list[Sharing]] = []
        self._position = 0
        self._wrapped: dict[Any, tuple[Any, list[tf.Tensor | None]]] = {}
        self.looks_again = False

    def begin(self, data: Any) -> None:
        """Prepare for a step with the batch ``data``."""
        self._data = data
        self._provenance = None if tf.executing_eagerly() else Provenance(data)
        self._known, self._position = [], 0

    @property
    def provenance(self) -> Provenance | None:
        """The provenance of the step's tensors; None: the step is run eagerly."""
        return self._provenance

    def keys(self, indices: tf.Tensor) -> tf.Tensor | None:
        """Return the key of each row of a gradient: an id that is the same on all tasks for rows that one process has
        only once, otherwise -1. Return None if all keys are -1.

        Must be called once for each sparse gradient of a step, always in the same order. Raises InvalidInput for a step
        that is run eagerly and cannot be traced.
        """
        if self._seen is not None:
            assert self._provenance is not None
            self._seen.append(self._provenance.parts(indices))
            return None
        position, self._position = self._position, self._position + 1
        if tf.executing_eagerly():
            return self._of_eager_step(position)
        assert self._provenance is not None
        parts = self._provenance.parts(indices)
        if any(sharing is Sharing.BY_POSITION for _, sharing in parts) and _has_static_size(self._data):
            if not self._known:
                self._known = [[sharing for _, sharing in seen] for seen in self._look_again()]
            parts = [(part, sharing) for (part, _), sharing in zip(parts, self._known[position], strict=True)]
        return _numbered(parts, indices.dtype)

    def _look_again(self) -> list[list[Part]]:
        """Return the parts of every sparse gradient of the step, for batches of any size."""
        leaves = tf.nest.flatten(self._data, expand_composites=True)
        graph = tf.__internal__.FuncGraph("lookups")
        with graph.as_default(), self._looking() as seen:
            self._trace([tf.compat.v1.placeholder(leaf.dtype, _any_size(leaf)) for leaf in leaves])
        return seen

    def _of_eager_step(self, position: int) -> tf.Tensor | None:
        leaves = tf.nest.flatten(self._data, expand_composites=True)
        kind = tuple((leaf.dtype, tuple(_any_size(leaf))) for leaf in leaves)
        if kind not in self._wrapped:
            self._wrapped[kind] = self._traced(leaves)
        run, fetched = self._wrapped[kind]
        if fetched[position] is None:
            return None
        return run(*leaves)[sum(f is not None for f in fetched[:position])]

    def _traced(self, leaves: list[tf.Tensor]) -> tuple[Any, list[tf.Tensor | None]]:
        """Return a pair: a function that takes a batch's tensors and returns the keys of each gradient that has keys
        (None if no gradient has keys); and a list with one element per gradient, which is None for a gradient without
        keys.
        """
        fetched: list[tf.Tensor | None] = []

        def step(*placeholders: tf.Tensor) -> None:
            with self._looking() as seen:
                self._trace(list(placeholders))
            fetched.extend(_numbered(parts, tf.int64) for parts in seen)

        signature = [tf.TensorSpec(_any_size(leaf), leaf.dtype) for leaf in leaves]
        try:
            wrapped = tf.compat.v1.wrap_function(step, signature)
        except Exception as error:
            raise InvalidInput(
                "Over several tasks, a train_step that is run eagerly and looks up rows of a table must be traceable "
                "by TensorFlow, because its graph shows which rows the tasks have in common. Set run_eagerly=False, or "
                'train with dtf.AllReduce(sparse="dense"). Tracing the train_step failed: '
                f"{type(error).__name__}: {error}",
                field="model",
            ) from error
        keys = [key for key in fetched if key is not None]
        run = wrapped.prune(wrapped.inputs[: len(leaves)], keys) if keys else None
        return run, fetched

    def _trace(self, leaves: list[tf.Tensor]) -> None:
        data = tf.nest.pack_sequence_as(self._data, leaves, expand_composites=True)
        self._provenance = Provenance(data)
        self._step(data)

    @contextmanager
    def _looking(self) -> Iterator[list[list[Part]]]:
        provenance, self._seen, self.looks_again = self._provenance, [], True
        try:
            yield self._seen
        finally:
            self._provenance, self._seen, self.looks_again = provenance, None, False


def _numbered(parts: Sequence[Part], dtype: tf.DType) -> tf.Tensor | None:
    shared = [index for index, (_, sharing) in enumerate(parts) if sharing is not Sharing.NONE]
    if not shared:
        return None
    keys = []
    for index, (part, sharing) in enumerate(parts):
        alone = tf.fill([tf.size(part)], tf.constant(-1, dtype))
        if sharing is Sharing.NONE:
            keys.append(alone)
            continue
        ids = tf.range(tf.size(part, dtype), dtype=dtype)
        if sharing is Sharing.BY_INDEX:
            ids = tf.cast(tf.reshape(part, [-1]), dtype)
        keys.append(tf.where(ids < 0, alone, ids * len(shared) + shared.index(index)))
    return tf.concat(keys, 0)


def _has_static_size(data: Any) -> bool:
    leaves = tf.nest.flatten(data, expand_composites=True)
    return any(leaf is not None and leaf.shape.rank and leaf.shape[0] is not None for leaf in leaves)


def _any_size(leaf: tf.Tensor) -> list[int | None]:
    return [None, *leaf.shape.as_list()[1:]] if leaf.shape.rank else []
