"""Builds the graph of one step: the forward and backward passes of the microbatches, then one update.

The reported loss is computed once, on the outputs of all microbatches together, so it equals that of one process, for
any reduction, weights and masks. If the loss is the sum of the microbatches' parts (``loss_by_parts.py``), the backward
pass of a microbatch starts as soon as its forward pass has ended, and stages alternate between one forward and one
backward pass. Otherwise, all backward passes start after all forward passes: fill and drain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import keras
import tensorflow as tf

# Keras 3.15: masks of tensors have no public accessors.
from keras.src import backend

from ...describe import stateful
from ..batch_values import is_mean, metrics_by_log
from ..learning_rate import LinearScaling, scaled
from ..losses import counted_by_examples
from .effects import Effects
from .follow import DATA_SCOPE, settle, within
from .forward import Part, Pass, forward, logits_of, operations_made, placed
from .layer_devices import Places
from .limits import refuse_writes
from .loss_by_parts import loss_of_part, needs_whole_batch
from .one_forward_one_backward import take_turns
from .pipeline_graph import as_function
from .stage_gradients import Sum, gradients_of
from .state import Assignments, Microbatches, Values, depends_on_batch
from .step_order import Phase, fill_and_drain, in_order, not_taken
from .units import Units
from .variables import GraphVariables

_AS_ASKED = "This is the schedule that the strategy requests"
LOSS, METRICS, BACKWARD, UPDATE = "loss", "metrics", "backward", "update"
"""Name scopes. ``backward/2`` has the derivatives of the operations in ``forward/2``, under the same names."""


@dataclass
class Logs:
    """The logs that a step reports, as tensors in its graph."""

    results: Any
    """The results of the metrics, keyed by name."""
    means: list[str]
    """The names of the metrics that are means."""
    counts: tf.Tensor
    """The counts of the means. Shape ``[len(means)]``."""


@dataclass
class Step:
    """The placeholders and fetches that a session needs to run a step."""

    fed: list[str]
    """The names of the placeholders for a batch's arrays, as a flat list: tensors cannot be keys of a dict."""
    logs: Logs
    run: tf.Operation
    learning_rate: tf.Tensor | None = None
    filled: str = ""
    """The reason why all forward passes precede the first backward pass; empty if they alternate."""


class Steps:
    """Builds the steps of one model on the default graph.

    ``copies``: the ``Places`` of each copy of the pipeline. Variables are on the devices of the first copy. The other
    copies read them there, and send the sums of their gradients there. ``client``: the device that batches are fed to.
    ``scaling``: the scaling of the learning rate. ``in_turn``: whether stages alternate between one forward and one
    backward pass if the loss allows it.
    """

    def __init__(
        self,
        model: Any,
        copies: Sequence[Places],
        units: Units,
        client: str,
        scaling: LinearScaling | None = None,
        *,
        in_turn: bool = False,
    ) -> None:
        self._model = model
        self._in_turn = in_turn
        self._copies = copies
        self._units = units
        self._client = client
        self._scaling = scaling
        with tf.compat.v1.device(client), tf.name_scope(f"{DATA_SCOPE}/"):
            self.number = tf.compat.v1.placeholder(tf.int64, [], name="step")
        """The index of a training step over all epochs; it is fed only if the learning rate is scaled."""
        self.variables = GraphVariables()
        """The variables of the model and its optimizers, and other variables that the model's code reads."""
        for variable, home in units.homes:
            self.variables.add(variable, home.device, home.scope)
        tf.compat.v1.get_default_graph().hold = lambda handle: self.variables.hold(handle, client)
        self.metrics = GraphVariables()
        """The variables of metrics: those of layers' metrics are on the client, others on the device of the loss."""
        for layer in model._flatten_layers(include_self=False):
            for variable in (variable for metric in layer._metrics for variable in metric.variables):
                self.metrics.add(variable, client, METRICS)

    def training(self, spec: Any, microbatches: int) -> Step:
        """Build a step that updates the weights. ``spec``: the TensorSpecs of ``(x, y, sample_weight)``."""
        optimizer, trainable = self._units.optimizer, self._units.trainable
        with operations_made() as begun:
            fed, data = self._batch(spec)
            values = Values(self.variables.reads(), self._units.split)
        batch = keras.utils.unpack_x_y_sample_weight(data)
        copies, end = self._forward(batch, values, microbatches, training=True)
        passes = [one for copy in copies for one in copy]
        depends = depends_on_batch()
        sums = {id(variable): Sum(depends) for variable in trainable}
        with operations_made() as losing:
            logs, loss, end = self._loss(batch, end, passes, training=True)
            leaves = [leaf for one in passes for leaf in one.leaves]
            weights = [end[variable] for variable in trainable]
            filled = needs_whole_batch(self._model, passes) if self._in_turn else _AS_ASKED
            with tf.name_scope(f"{LOSS}/"), within(None), self._in_place():
                sources = [*weights, *leaves] if filled else weights
                found = gradients_of([optimizer.scale_loss(loss)], sources, constant=leaves)
                scaled_shares = [optimizer.scale_loss(one.part.share) for one in passes]
        shares = iter(scaled_shares)
        slopes = iter(found[len(weights) :]) if filled else self._slopes(batch, passes)
        for variable, derivative in zip(trainable, found, strict=False):
            sums[id(variable)].add([derivative])
        backward = []
        for number, copy in enumerate(copies):
            own = sums if number == 0 else {id(variable): Sum(depends) for variable in trainable}
            backward.append(self._backward(copy, slopes, shares, own))
            if number:
                with tf.name_scope(f"{BACKWARD}/{copy[-1].number}/"), within(None):
                    for key, each in own.items():
                        sums[key].join(each)

        with operations_made() as updating, tf.name_scope(f"{UPDATE}/"), within(None), as_function(), self._in_place():
            gradients = [sums[id(variable)].total() for variable in trainable]
            self.variables.write(end.pairs)
            factor = None if self._scaling is None else self._scaling.factor(self.number)
            with scaled(optimizer, factor):
                learning_rate = tf.identity(tf.convert_to_tensor(optimizer.learning_rate))
                optimizer.apply(gradients, trainable)

        effects = Effects()
        for operations in (begun, *(one.operations for one in passes), losing):
            effects.add(operations)
        for operations in (made for derived in backward for made in derived):
            effects.add(operations, ordered=False)
        effects.add(updating)
        settle(tf.compat.v1.get_default_graph().get_operations())
        last = Phase(updating)
        for copy, derived in zip(copies, backward, strict=True):
            forward_made = [operation for one in copy for operation in one.operations]
            down = [Phase(one.operations) for one in copy]
            up = [Phase(not_taken(operations, by=forward_made)) for operations in derived]
            for phase in up:
                phase.one_at_a_time()
            ended = None if filled else take_turns(down, up)
            if ended is None:
                filled = filled or "Some stages depend on each other, within a microbatch or between microbatches"
                ended = fill_and_drain(down, up)
            last.begin_after(ended)
        return Step(fed, logs, tf.group(*effects.all), learning_rate, filled)

    def test(self, spec: Any, microbatches: int) -> Step:
        """Build a validation step, which has no backward passes and no update."""
        with operations_made() as begun:
            fed, data = self._batch(spec)
            values = Values(self.variables.reads(), self._units.split)
        batch = keras.utils.unpack_x_y_sample_weight(data)
        copies, end = self._forward(batch, values, microbatches, training=False)
        passes = [one for copy in copies for one in copy]
        with operations_made() as losing:
            logs, _, end = self._loss(batch, end, passes, training=False)
            with tf.name_scope(f"{UPDATE}/"):
                self.variables.write(end.pairs)  # layers assign during validation, too
        effects = Effects()
        for operations in (begun, *(one.operations for one in passes), losing):
            effects.add(operations)
        settle(tf.compat.v1.get_default_graph().get_operations())
        for copy in copies:
            in_order([Phase(one.operations) for one in copy])
        return Step(fed, logs, tf.group(*effects.all))

    def own(self, spec: Any, training: bool) -> Step:
        """Build a step that runs the model's own ``train_step`` or ``test_step`` on the whole, undivided batch."""
        model = self._model
        with operations_made() as made:
            fed, data = self._batch(spec)
            with within(None):
                self._hold_metrics(self._client)
            with (
                within(None),
                as_function(),
                self._in_place(),
                placed(model, self._copies[0], 0),
                counted_by_examples(model, _length(data)),
            ):
                rate = tf.identity(tf.convert_to_tensor(model.optimizer.learning_rate))
                logs = self._logs((model.train_step if training else model.test_step)(data))
        effects = Effects()
        effects.add(made)
        settle(tf.compat.v1.get_default_graph().get_operations())
        return Step(fed, logs, tf.group(*effects.all), rate)

    def reset(self) -> tf.Operation:
        """Return an operation that resets the metrics."""
        with operations_made() as made, tf.name_scope(f"{LOSS}/reset/"), within(None), as_function(), self._in_place():
            type(self._model).reset_metrics(self._model)
        effects = Effects()
        effects.add(made)
        settle(made)
        return tf.group(*effects.all)

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        """Use the graph's variables inside this context, for code that does not run in a ``StatelessScope``."""
        with self.variables.in_place(), self.metrics.in_place():
            yield

    def _batch(self, spec: Any) -> tuple[list[str], Any]:
        """Return a flat list of the placeholders' names, and the placeholders in the structure of a batch."""
        with tf.compat.v1.device(self._client), tf.name_scope(f"{DATA_SCOPE}/"):
            batch = keras.tree.map_structure(
                lambda leaf: (
                    tf.compat.v1.placeholder(leaf.dtype, [None, *leaf.shape[1:]]) if hasattr(leaf, "shape") else None
                ),
                spec,
            )
        return [leaf.name for leaf in keras.tree.flatten(batch) if leaf is not None], batch

    def _forward(
        self, batch: Any, values: Values, microbatches: int, training: bool
    ) -> tuple[list[list[Pass]], Values]:
        """Return a list of the microbatches' forward passes for each copy, and the variables after all passes."""
        with tf.compat.v1.device(self._client), tf.name_scope(f"{DATA_SCOPE}/"):
            parts = _parts(batch[0], microbatches)
        used = min(len(self._copies), microbatches)
        state = Microbatches(values, microbatches, stateful.states(self._model))
        copies: list[list[Pass]] = []
        for copy, places in enumerate(self._copies[:used]):
            passes = []
            for number in range(copy * microbatches // used, (copy + 1) * microbatches // used):
                part = parts[number]
                with within(None):
                    scope = state.scope(copy, part.low, part.high)
                passes.append(forward(self._model, places, part, scope, number=number, training=training))
                state.ended(copy, scope)
            copies.append(passes)
        refuse_writes([one.operations for copy in copies for one in copy])
        with tf.name_scope(f"{UPDATE}/"), within(None):
            return copies, state.end()

    def _backward(
        self, passes: Sequence[Pass], slopes: Iterator[Any], shares: Iterator[Any], sums: dict[int, Sum]
    ) -> list[list[tf.Operation]]:
        """Build the backward passes of a copy, and return each microbatch's operations.

        ``slopes`` yields the derivatives of the loss with respect to the leaves of this copy's microbatches, then of
        later ones; computing them on demand is part of the backward pass. ``shares``: the weight, for each microbatch,
        of the losses that layers have added.
        """
        made = []
        for one in passes:
            scope = f"{BACKWARD}/{one.number}/"
            with operations_made() as operations, tf.name_scope(scope), within(None), as_function():
                given: list[Any] = list(islice(slopes, len(one.leaves)))
                sources = [one.assignments.sources(variable) for variable in self._units.trainable]
                share = next(shares)
                given += [tf.cast(share, extra.dtype) for extra in one.losses]
                flat = [each for some in sources for each in some]
                found = iter(gradients_of([*one.leaves, *one.losses], flat, given))
                for variable, some in zip(self._units.trainable, sources, strict=True):
                    sums[id(variable)].add(list(islice(found, len(some))))
            made.append(operations)
        return made

    def _slopes(self, batch: Any, passes: Sequence[Pass]) -> Iterator[Any]:
        """Yield the derivatives of each microbatch's part of the loss with respect to the microbatch's leaves."""
        x, y, sample_weight = batch
        for one in passes:
            with tf.name_scope(f"{LOSS}/{one.number}/"), self._in_place():
                loss = loss_of_part(self._model, one, y, sample_weight, _length(x))
                if loss is None:
                    yield from [None] * len(one.leaves)
                    continue
                found = gradients_of([self._units.optimizer.scale_loss(loss)], one.leaves, constant=one.leaves)
            yield from found

    def _loss(
        self, batch: Any, values: Values, passes: Sequence[Pass], training: bool
    ) -> tuple[Logs, tf.Tensor, Values]:
        """Return the logs, the batch's loss without the layers' own losses, and the new values of variables."""
        model, (x, y, sample_weight) = self._model, batch
        with tf.name_scope(f"{LOSS}/"), within(None):
            outputs = keras.tree.map_structure(lambda *parts: _joined(parts), *(one.outputs for one in passes))
            self._hold_metrics(keras.tree.flatten(outputs)[0].device)
            examples = _length(x)
            with (
                as_function(),
                self._in_place(),
                Assignments(values) as scope,
                counted_by_examples(model, examples),
            ):
                if model._compile_loss is None and type(model).compute_loss is keras.Model.compute_loss:
                    loss = tf.zeros([])  # layers have added the whole loss
                else:
                    loss = model._compute_loss(x=x, y=y, y_pred=outputs, sample_weight=sample_weight, training=training)
                added = [tf.cast(one.part.share, extra.dtype) * extra for one in passes for extra in one.losses]
                whole = tf.add_n([loss, *(tf.cast(extra, loss.dtype) for extra in added)])
                model._loss_tracker.update_state(whole, sample_weight=examples)
                logs = self._logs(model.compute_metrics(x, y, outputs, sample_weight=sample_weight))
        return logs, loss, values.changed({key: made[-1] for key, made in scope.made.items()})

    def _logs(self, results: Any) -> Logs:
        """Return the logs. Must be called right after the metrics have been updated."""
        known = results if isinstance(results, dict) else {}
        metrics = {name: metric for name, metric in metrics_by_log(self._model).items() if name in known}
        means = {name: metric for name, metric in metrics.items() if is_mean(metric)}
        counts = [tf.cast(tf.convert_to_tensor(metric.count), tf.float32) for metric in means.values()]
        results = keras.tree.map_structure(tf.identity, results)
        return Logs(results, list(means), tf.stack(counts) if counts else tf.zeros([0]))

    def _hold_metrics(self, device: str) -> None:
        for variable in self._model.metrics_variables:
            if variable not in self.variables:
                self.metrics.add(variable, device, METRICS)


def _length(batch: Any) -> tf.Tensor:
    """Return the number of examples. Shape (), int32."""
    return tf.shape(next(leaf for leaf in keras.tree.flatten(batch) if leaf is not None))[0]


def _parts(inputs: Any, count: int) -> list[Part]:
    """Split a batch into ``count`` microbatches whose sizes differ by at most one example."""
    examples = _length(inputs)
    bounds = [examples * number // count for number in range(count + 1)]
    return [
        Part(
            keras.tree.map_structure(lambda leaf: None if leaf is None else leaf[low:high], inputs),  # noqa: B023
            low,
            high,
            tf.cast(high - low, tf.float32) / tf.cast(examples, tf.float32) if count > 1 else tf.ones([]),
        )
        for low, high in pairwise(bounds)
    ]


def _joined(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    """Concatenate the outputs of the microbatches into one batch with one mask."""
    if len(parts) == 1:
        return parts[0]
    logits = [logits_of(part) for part in parts]
    if hasattr(parts[0], "_keras_logits") or not logits[0]:
        whole = tf.concat(parts, 0)
        if logits[0]:
            whole._keras_logits = tf.concat([each for (each,) in logits], 0)
    else:  # Keras's losses look for the Softmax or Sigmoid operation
        made = {"Softmax": tf.nn.softmax, "Sigmoid": tf.math.sigmoid}[parts[0].op.type]
        whole = made(tf.concat([each for (each,) in logits], 0))
    masks = [backend.get_keras_mask(part) for part in parts]
    if masks[0] is not None:
        backend.set_keras_mask(whole, tf.concat(masks, 0))
    return whole
