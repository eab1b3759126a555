"""Contains the training step that one client runs on several devices.

Each replica runs the model's own ``train_step`` on its share of the batch, on its device. Variables stay on the client.
When all replicas have computed their gradients, the client applies the mean, weighted by the numbers of examples.
Variables that replicas compute from their own examples (moving statistics) are set to their mean, weighted in the same
way. Metrics include all examples, because each replica adds its own examples. Losses that are not means over examples
are corrected in the same way as in training over several tasks (see ``losses.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from typing import Any

import tensorflow as tf

from .....errors import InvalidInput
from ..assigned_weights import Outside, by_example, refuse_by_example
from ..derived_logs import DerivedLogs
from ..gradient_sync import GradientSync, has_own_apply_gradients, inner_optimizers_of, optimizers_of
from ..lookups import Lookups
from ..losses import counted_by_examples, of_global_batch
from ..steps import batch_size
from .held_tensors import holders_of
from .lockstep import Lockstep
from .mean_gradients import mean_gradients, weighted


class ReplicaStep:
    """A replacement for a built model's ``train_step``, with a replica on each of ``devices``.

    A batch with fewer examples than replicas is processed by the first replica alone.
    """

    def __init__(self, model: Any, sync: GradientSync, devices: list[str]) -> None:
        self._model = model
        self._sync = sync
        self._devices = devices
        self._step = model.train_step
        self._derived = DerivedLogs(model)
        self._lockstep = Lockstep(holders_of(model))
        self._lookups = [Lookups(self._step) for _ in devices]
        self._outside = [Outside(model, lambda *_: None, may_be_empty=False) for _ in devices]
        self._sizes: list[Any] = []
        self._weights: list[Any] = []
        self._applied = False
        self._moved: dict[int, dict[int, Any]] = {}
        self._metric_results: list[Any] = []
        for optimizer in optimizers_of(model):
            optimizer.apply = partial(self._apply, optimizer, optimizer.apply)
            if has_own_apply_gradients(optimizer):
                optimizer.apply_gradients = partial(self._apply_gradients, optimizer, optimizer.apply_gradients)
        for optimizer in inner_optimizers_of(model):
            optimizer.apply = partial(self._refuse, optimizer, optimizer.apply)
        self._moving = list(model.non_trainable_weights)
        self._assign = [variable._direct_assign for variable in self._moving]
        for index, variable in enumerate(self._moving):
            variable._direct_assign = partial(self._move, index)
        for variable in model.trainable_weights:
            variable._direct_assign = partial(self._settle, variable, variable._direct_assign)
        self._get_metrics_result = _on_client(model.get_metrics_result)
        object.__setattr__(model, "get_metrics_result", self._metrics_result)
        for metric in model.metrics:
            for variable in metric.variables:
                variable.assign_add = _on_client(variable.assign_add)
        for layer in model._flatten_layers():
            for generator in layer._seed_generators:
                generator.next = _on_client(generator.next)

    def __call__(self, data: Any) -> Any:
        examples = batch_size(data)
        self._sync.begin(examples)
        replicas = len(self._devices)
        known = next(leaf for leaf in tf.nest.flatten(data) if leaf is not None).shape[0]
        if known is not None:
            return self._on(replicas if known >= replicas else 1, data, known)
        if replicas == 1:
            return self._on(1, data, examples)
        return tf.cond(
            examples >= replicas, lambda: self._on(replicas, data, examples), lambda: self._on(1, data, examples)
        )

    @property
    def examples(self) -> Any:
        """The number of examples in the running replica's share of the batch."""
        return self._sizes[self._running]

    def sum(self, values: tf.Tensor) -> tf.Tensor:
        """Sum a few numbers over the replicas. The numbers must not depend on the weights. Called by each replica."""
        if self._lookups[self._running].looks_again:
            return values
        return tf.stop_gradient(self._meet(tf.stop_gradient(values), tf.add_n))

    def _meet(self, value: Any, merge: Callable[[list[Any]], Any]) -> Any:
        """Wait for the other replicas and return the merged value. Assignments that other replicas make in the meantime
        take effect, but are not counted as this replica's (``Outside.pass_over``).
        """
        is_watched = len(self._sizes) > 1 and self._lookups[self._running].provenance is not None
        outside = self._outside[self._running]
        if is_watched:
            outside.settle()
        merged = self._lockstep.meet(value, merge)
        if is_watched:
            outside.pass_over()
        return merged

    @property
    def _running(self) -> int:
        assert self._lockstep.current is not None
        return self._lockstep.current

    def _on(self, replicas: int, data: Any, examples: Any) -> Any:
        """Run the step on the first ``replicas`` devices."""
        shares = [data]
        self._sizes = [examples]
        if replicas > 1:
            bounds = [examples * replica // replicas for replica in range(replicas + 1)]
            shares = [tf.nest.map_structure(partial(_part, *share), data) for share in pairwise(bounds)]
            self._sizes = [high - low for low, high in pairwise(bounds)]
        self._weights = [_quotient(size, examples) for size in self._sizes]
        self._applied, self._moved, self._metric_results = False, {}, []
        for lookups, share in zip(self._lookups, shares, strict=False):
            lookups.begin(share)

        def replica(index: int) -> Any:
            outside, provenance = self._outside[index], self._lookups[index].provenance
            with tf.device(self._devices[index]), ExitStack() as stack:
                if provenance is not None and replicas > 1:
                    stack.enter_context(outside.watched(provenance))
                return self._step(shares[index])

        with of_global_batch(self._model, self), counted_by_examples(self._model, lambda: self.examples):
            outputs = self._lockstep.run(replicas, replica)
        if not self._applied and not self._model.trainable_variables:
            self._model.optimizer.apply([], [])  # Keras applies nothing, but the step must be counted
            self._applied = True
        if not self._applied:
            raise InvalidInput(
                "`model`: train_step must update the weights with optimizer.apply or optimizer.apply_gradients of an "
                "optimizer that is an attribute of the model, because this call merges the replicas, got a train_step "
                f"of {type(self._model).__name__} that calls neither"
            )
        for index, values in self._moved.items():
            self._assign[index](self._mean_moved(values))
        self._derived.note(outputs[-1])
        results = self._results(outputs, self._get_metrics_result())
        return {**results, **self._derived.again()} if isinstance(results, dict) else results

    # -- replacements inside a replica ------------------------------------------------------------------------------

    def _apply(self, optimizer: Any, apply: Any, grads: Any, trainable_variables: Any = None) -> Any:
        if self._lockstep.current is None:
            return apply(grads, trainable_variables)
        self._applied = True
        variables = list(trainable_variables) if trainable_variables is not None else optimizer._trainable_variables
        lookups = self._lookups[self._running]
        mine = weighted(list(grads), variables, self._weights[self._running], lookups)
        if lookups.looks_again:
            return None
        return self._meet(mine, lambda all_replicas: apply(mean_gradients(all_replicas, variables), variables))

    def _refuse(self, optimizer: Any, apply: Any, grads: Any, trainable_variables: Any = None) -> Any:
        """Run in place of the ``apply`` of an optimizer that is not an attribute of the model, because the gradients of
        such an optimizer are not merged. Raises InvalidInput if there are several replicas.
        """
        if self._lockstep.current is None or len(self._sizes) == 1:
            return apply(grads, trainable_variables)
        raise by_example((trainable_variables or optimizer._trainable_variables)[0])

    def _apply_gradients(self, optimizer: Any, apply_gradients: Any, grads_and_vars: Any) -> Any:
        """Run in place of an optimizer's own ``apply_gradients``, which needs the gradients of all replicas."""

        def apply(grads: Any, variables: Any) -> None:
            apply_gradients(list(zip(grads, variables, strict=True)))

        self._apply(optimizer, apply, *zip(*grads_and_vars, strict=True))
        return optimizer._iterations

    def _settle(self, variable: Any, assign: Callable[[Any], Any], value: Any) -> Any:
        """Make a step's assignment to a trainable weight only once, not on every replica.

        The first replica's part of the step runs first, so the other replicas see the new value.
        """
        replica = self._lockstep.current
        if replica is None or len(self._sizes) == 1:
            return assign(value)
        provenance = self._lookups[replica].provenance
        if provenance is not None:
            refuse_by_example(variable, tf.convert_to_tensor(value), provenance)
        return assign(value) if replica == 0 else None

    def _move(self, index: int, value: Any) -> None:
        """Record the value that one of several replicas assigns to a non-trainable variable.

        Inside a condition or loop of the step, the values are not recorded: the replicas assign them one after the
        other.
        """
        replica = self._lockstep.current
        if replica is None or len(self._sizes) == 1 or not self._lockstep.at_top_level:
            self._assign[index](value)
        else:
            self._moved.setdefault(index, {})[replica] = value

    def _metrics_result(self) -> Any:
        result = self._get_metrics_result()
        if self._lockstep.current is not None:
            self._metric_results += tf.nest.flatten(result)
        return result

    # -- combining the replicas' results ----------------------------------------------------------------------------

    def _mean_moved(self, values: dict[int, Any]) -> Any:
        """Return the weighted mean of the replicas' values of a variable; for integers and booleans, the value of the
        first replica.
        """
        tensors = {replica: tf.convert_to_tensor(value) for replica, value in values.items()}
        first = tensors[min(tensors)]
        if len(tensors) == 1 or not first.dtype.is_floating:
            return first
        weights = {replica: tf.cast(self._weights[replica], first.dtype) for replica in tensors}
        total = tf.add_n([tensors[replica] * weights[replica] for replica in tensors])
        return total / tf.add_n(list(weights.values()))

    def _results(self, outputs: list[Any], metrics: Any) -> Any:
        """Return the result that ``train_step`` would have in one process: the current results of metrics, the weighted
        means of other floating-point outputs, and the last replica's values of all other outputs.
        """
        first = outputs[0]
        if isinstance(first, dict):
            known = metrics if isinstance(metrics, dict) else {}
            return {name: self._results([o[name] for o in outputs], known.get(name)) for name in first}
        if metrics is not None and any(first is result for result in self._metric_results):
            return metrics
        values = [tf.convert_to_tensor(output) for output in outputs]
        if not values[0].dtype.is_floating:
            return values[-1]
        weights = [tf.cast(weight, values[0].dtype) for weight in self._weights]
        return tf.add_n([value * weight for value, weight in zip(values, weights, strict=True)])


def _on_client(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that its operations are placed next to the client's variables, to avoid transfers from and to
    a replica.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        with tf.device(None):
            return function(*args, **kwargs)

    return call


def _quotient(part: Any, whole: Any) -> Any:
    """Return ``part / whole``: a number, or a float32 scalar tensor if the numbers of examples are known only at run
    time.
    """
    if isinstance(whole, int):
        return part / whole if whole else 1.0
    return tf.cast(part, tf.float32) / tf.cast(tf.maximum(whole, 1), tf.float32)


def _part(low: Any, high: Any, leaf: Any) -> Any:
    """Return the rows of a dense, ragged or sparse tensor from ``low`` up to, but not including, ``high``; if ``leaf``
    is None, return None.
    """
    if isinstance(leaf, tf.SparseTensor):
        start = tf.concat([[tf.cast(low, tf.int64)], tf.zeros_like(leaf.dense_shape[1:])], 0)
        size = tf.concat([[tf.cast(high - low, tf.int64)], leaf.dense_shape[1:]], 0)
        return tf.sparse.slice(leaf, start, size)
    return None if leaf is None else leaf[low:high]
