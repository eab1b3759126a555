"""The graph of one step: microbatches forward, the loss of the whole batch, microbatches backward, one update.

The loss is computed once, on what all microbatches put out together, so that it is what one process would compute,
whatever its reduction, its weights and its masks. A stage drains only after it has filled, so that costs no waiting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice, pairwise
from typing import Any

import keras
import tensorflow as tf
from keras.src import backend

from ...model_state import is_seed
from ..losses import counted_by_examples
from . import update
from .follow import DATA_SCOPE, settle, within
from .forward import Part, Pass, Values, forward, operations_made
from .gradients import gradients_of, total
from .graph import as_function
from .order import Phase, in_order, not_taken, then
from .places import Places
from .units import Units
from .variables import GraphVariables

LOSS, METRICS, BACKWARD, UPDATE = "loss", "metrics", "backward", "update"
"""Name scopes. In ``backward/2`` are the derivatives of ``forward/2`` under the names of what they are derived from."""


@dataclass
class Step:
    """What a session runs."""

    fed: list[Any]
    """Placeholders of the arrays of a batch, flat."""
    logs: dict[str, tf.Tensor]
    """Scalars by name."""
    run: tf.Operation
    learning_rate: tf.Tensor | None = None


class Steps:
    """Builds the steps of one model on the default graph.

    ``copies``: the places of each copy of the pipeline. Variables are with the first; the others read them there, and
    send the sums of their gradients. ``client``: the device that batches are fed to.
    """

    def __init__(self, model: Any, copies: Sequence[Places], units: Units, client: str) -> None:
        self._model = model
        self._copies = copies
        self._units = units
        self._client = client
        self.variables = GraphVariables()
        """Those of the model and of its optimizer."""
        for variable, home in units.homes:
            self.variables.add(variable, home.device, home.scope)
        self.metrics = GraphVariables()
        """Those of the metrics, beside the loss."""

    def training(self, spec: Any, microbatches: int) -> Step:
        """A step that updates the weights. ``spec``: the TensorSpecs of ``(x, y, sample_weight)``."""
        optimizer, trainable = self._units.optimizer, self._units.trainable
        fed, batch = self._batch(spec)
        values = Values(self.variables.reads(), self._units.split)
        copies, moved = self._forward(batch, values, microbatches, training=True)
        passes = [one for copy in copies for one in copy]
        loss, step = self._loss(fed, batch, values, passes, training=True)

        weights = [values[variable] for variable in trainable]
        leaves = [leaf for one in passes for leaf in one.leaves]
        with tf.name_scope(f"{LOSS}/"), within(None):
            begun = gradients_of([optimizer.scale_loss(loss)], [*weights, *leaves], constant=leaves)
        slopes = iter(begun[len(weights) :])
        backward, sums = [], [begun[: len(weights)]]
        for copy in copies:
            made, summed = self._backward(copy, weights, slopes)
            backward.append(made)
            sums.append(summed)

        with operations_made() as updating, tf.name_scope(f"{UPDATE}/"), within(None):
            gradients = [reduce(total, each) for each in zip(*sums, strict=True)]
            with as_function(), keras.StatelessScope(values.pairs) as scope:
                step.learning_rate = tf.identity(tf.convert_to_tensor(optimizer.learning_rate))
                update.apply(optimizer, gradients, trainable, scope)
            changed = moved.after(scope, [*trainable, *optimizer.variables])
            writes = self.variables.writes(changed.pairs)
        step.run = tf.group(step.run, *writes)
        settle(tf.compat.v1.get_default_graph().get_operations())
        last = Phase(updating)
        for copy, derived in zip(copies, backward, strict=True):
            forward_made = [operation for one in copy for operation in one.operations]
            down = in_order([one.operations for one in copy])
            up = in_order([not_taken(operations, by=forward_made) for operations in derived])
            for phase in up:
                phase.one_at_a_time()
            then(down[-1], up[0])
            then(up[-1], last)
        return step

    def test(self, spec: Any, microbatches: int) -> Step:
        """A step that only looks."""
        fed, batch = self._batch(spec)
        values = Values(self.variables.reads(), self._units.split)
        copies, _ = self._forward(batch, values, microbatches, training=False)
        _, step = self._loss(fed, batch, values, [one for copy in copies for one in copy], training=False)
        settle(tf.compat.v1.get_default_graph().get_operations())
        for copy in copies:
            in_order([one.operations for one in copy])
        return step

    def reset(self) -> tf.Operation:
        """An operation that empties the metrics."""
        with tf.name_scope(f"{LOSS}/reset/"), within(None):
            values = Values(self.metrics.reads())
            with as_function(), keras.StatelessScope(values.pairs) as scope:
                type(self._model).reset_metrics(self._model)
            return tf.group(*self.metrics.writes(values.after(scope, self._model.metrics_variables).pairs))

    def _batch(self, spec: Any) -> tuple[list[Any], Any]:
        """Placeholders, flat and in the structure of a batch: ``(x, y, sample_weight)``."""
        with tf.compat.v1.device(self._client), tf.name_scope(f"{DATA_SCOPE}/"):
            batch = keras.tree.map_structure(
                lambda leaf: None if leaf is None else tf.compat.v1.placeholder(leaf.dtype, [None, *leaf.shape[1:]]),
                spec,
            )
        fed = [leaf for leaf in keras.tree.flatten(batch) if leaf is not None]
        return fed, keras.utils.unpack_x_y_sample_weight(batch)

    def _forward(
        self, batch: Any, values: Values, microbatches: int, training: bool
    ) -> tuple[list[list[Pass]], Values]:
        """The microbatches' ways, by copy, and what the variables are after them all."""
        with tf.compat.v1.device(self._client), tf.name_scope(f"{DATA_SCOPE}/"):
            parts = _parts(batch[0], microbatches)
        used = min(len(self._copies), microbatches)
        copies: list[list[Pass]] = []
        ends = []
        for copy, places in enumerate(self._copies[:used]):
            now = values if copy == 0 else _with_other_seeds(values, copy)
            passes = []
            for number in range(copy * microbatches // used, (copy + 1) * microbatches // used):
                one, now = forward(self._model, places, parts[number], now, number=number, training=training)
                passes.append(one)
            copies.append(passes)
            ends.append(now)
        return copies, ends[0] if used == 1 else _mean(ends)

    def _backward(
        self, passes: Sequence[Pass], weights: list[tf.Tensor], slopes: Iterator[Any]
    ) -> tuple[list[list[tf.Operation]], list[Any]]:
        """The operations that each microbatch of a copy makes on its way back, and the sums of its gradients.

        ``slopes``: the derivatives of the loss by the outputs of this copy's microbatches, and of those to come.
        """
        optimizer = self._units.optimizer
        made, sums = [], [None] * len(weights)
        for one in passes:
            with operations_made() as operations, tf.name_scope(f"{BACKWARD}/{one.number}/"), within(None):
                added = [optimizer.scale_loss(tf.cast(one.share, extra.dtype)) for extra in one.losses]
                given = [*islice(slopes, len(one.leaves)), *added]
                found = gradients_of([*one.leaves, *one.losses], weights, given)
                sums = [total(before, now) for before, now in zip(sums, found, strict=True)]
            made.append(operations)
        return made, sums

    def _loss(
        self, fed: list[Any], batch: Any, values: Values, passes: Sequence[Pass], training: bool
    ) -> tuple[tf.Tensor, Step]:
        """The batch's loss without what layers have added, and a step that takes note of it in the metrics."""
        model, (x, y, sample_weight) = self._model, batch
        with tf.name_scope(f"{LOSS}/"), within(None):
            outputs = keras.tree.map_structure(lambda *parts: _joined(parts), *(one.outputs for one in passes))
            beside = keras.tree.flatten(outputs)[0].device
            for variable in model.metrics_variables:
                self.metrics.add(variable, beside, METRICS)
            counts = Values(self.metrics.reads())
            examples = _length(x)
            with (
                as_function(),
                keras.StatelessScope([*values.mapping, *counts.pairs]) as scope,
                counted_by_examples(model, examples),
            ):
                loss = model._compute_loss(x=x, y=y, y_pred=outputs, sample_weight=sample_weight, training=training)
                added = [tf.cast(one.share, extra.dtype) * extra for one in passes for extra in one.losses]
                whole = tf.add_n([loss, *(tf.cast(extra, loss.dtype) for extra in added)])
                model._loss_tracker.update_state(whole, sample_weight=examples)
                logs = model.compute_metrics(x, y, outputs, sample_weight=sample_weight)
            writes = self.metrics.writes(counts.after(scope, model.metrics_variables).pairs)
        return loss, Step(fed, {name: tf.identity(value) for name, value in logs.items()}, tf.group(*writes))


def _length(batch: Any) -> tf.Tensor:
    """The number of examples. Shape (), int32."""
    return tf.shape(next(leaf for leaf in keras.tree.flatten(batch) if leaf is not None))[0]


def _parts(inputs: Any, count: int) -> list[Part]:
    """A batch cut into so many microbatches that differ by at most one example."""
    examples = _length(inputs)
    bounds = [examples * number // count for number in range(count + 1)]
    return [
        Part(
            keras.tree.map_structure(lambda leaf: None if leaf is None else leaf[low:high], inputs),  # noqa: B023
            tf.cast(high - low, tf.float32) / tf.cast(examples, tf.float32),
        )
        for low, high in pairwise(bounds)
    ]


def _with_other_seeds(values: Values, copy: int) -> Values:
    """What a copy of the pipeline begins with: random numbers of its own."""
    return Values(
        [
            (v, value + tf.constant([copy * 0x9E3779B1 % 2**32, 0], value.dtype) if is_seed(v) else value)
            for v, value in values.pairs
        ],
        values.split,
    )


def _mean(ends: Sequence[Values]) -> Values:
    """What the copies have made of moving statistics, averaged; of whole numbers, what the first one has."""
    pairs = []
    for (variable, first), *others in zip(*(end.pairs for end in ends), strict=True):
        is_moved = first.dtype.is_floating and any(value is not first for _, value in others)
        mean = tf.add_n([first, *(value for _, value in others)]) / len(ends) if is_moved else first
        pairs.append((variable, mean))
    return Values(pairs, ends[0].split)


def _joined(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    """What the microbatches put out, as one batch with one mask."""
    if len(parts) == 1:
        return parts[0]
    whole = tf.concat(parts, 0)
    masks = [backend.get_keras_mask(part) for part in parts]
    if masks[0] is not None:
        backend.set_keras_mask(whole, tf.concat(masks, 0))
    return whole
