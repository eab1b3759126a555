"""Keras optimizers that apply the gradients of all tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import MethodType
from typing import Any

import keras
import tensorflow as tf

from ...errors import InvalidInput
from . import gradient_hooks
from .graph1 import GraphOptimizer
from .reduce_ops import Average, Compression
from .synced_gradients import GradientReducer, checked_groups, held, layers_variables


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: str = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[Any]] | None = None,
    process_set: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """Make an optimizer apply the gradients of all tasks.

    With a Keras 3 optimizer, ``apply`` then first reduces the gradients over the tasks. The optimizer's class,
    configuration and state do not change, so a model saved with it can be loaded anywhere. As in Horovod,
    ``iterations`` counts every call.

    Args:
        optimizer: A Keras 3 optimizer, or one of ``tf.compat.v1.train``.
        name: The name of the wrapper, if ``optimizer`` is one of ``tf.compat.v1.train``.
        use_locking: Accepted but ignored.
        device_dense: Accepted but ignored.
        device_sparse: Accepted but ignored.
        compression: The compression of tensors that are sent, one of ``hvd.Compression``.
        sparse_as_dense: Whether to convert sparse gradients to dense ones before reducing.
        backward_passes_per_step: The number of calls whose gradients are added up before they are reduced and applied.
        op: ``hvd.Average`` or ``hvd.Sum``.
        gradient_predivide_factor: Splits the division of an average: gradients are divided by this factor f before they
            are summed, and the sum is divided by (number of tasks / f).
        average_aggregated_gradients: Whether to divide the sum over several calls by the number of calls.
        num_groups: The older form of ``groups``.
        groups: The number of groups in which gradients are fused, or a list of variables for each group. By default,
            all gradients are fused.
        process_set: The tasks that take part; None: all tasks.
        scale_local_gradients: Whether to divide the gradients of local variables by the number of tasks.

    Returns:
        The same Keras optimizer; for one of ``tf.compat.v1.train``, a wrapper (``GraphOptimizer``).

    Raises:
        InvalidInput: For a Keras 2 optimizer, and for invalid arguments.

    Example:
        >>> optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.001 * hvd.size()))
    """
    if backward_passes_per_step < 1:
        raise InvalidInput(
            f"`backward_passes_per_step` must be an integer >= 1, got {backward_passes_per_step!r}",
            field="backward_passes_per_step",
        )
    reducer = GradientReducer(
        op=op,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        gradient_predivide_factor=gradient_predivide_factor,
        groups=checked_groups(groups, num_groups),
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )
    passes = backward_passes_per_step
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        return GraphOptimizer(optimizer, reducer, passes, average_aggregated_gradients, name)
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise InvalidInput(
            "`optimizer` must be one of Keras 3 (tf.keras.optimizers) or of tf.compat.v1.train, "
            f"got {type(optimizer).__module__}.{type(optimizer).__qualname__}",
            field="optimizer",
        )
    accumulator = _Accumulator(passes, average_aggregated_gradients) if passes > 1 else None
    apply = MethodType(
        type(optimizer).apply, optimizer
    )  # the method of the class, so that wrapping an optimizer twice has no effect

    computed: list[Any] = []

    def distributed_apply(grads: Iterable[Any], trainable_variables: Iterable[Any] | None = None) -> None:
        grads = list(grads)
        variables = list(optimizer._trainable_variables if trainable_variables is None else trainable_variables)
        if accumulator is None:
            done = [id(g) for g in computed] == [id(g) for g in grads]
            computed.clear()
            apply(grads if done else reducer.reduce(grads, variables), variables)
        else:
            accumulator.add(optimizer, grads, variables, reducer, apply)

    def compute_gradients(loss: Any, var_list: Iterable[Any], grad_loss: Any = None, tape: Any = None) -> list[Any]:
        """Return ``(gradient, variable)`` pairs, as Horovod does with Keras 2.

        The gradients are reduced, unless those of several passes must be added up first.
        """
        variables = list(var_list)
        if callable(loss):
            with tf.GradientTape() as own:
                loss = loss()
            tape = own
        grads = tape.gradient(loss, [held(v) for v in variables], grad_loss)
        if accumulator is None:
            grads = computed[:] = reducer.reduce(grads, variables)
        return list(zip(grads, variables, strict=True))

    optimizer.apply = distributed_apply
    optimizer._compute_gradients = compute_gradients
    optimizer._agg_helper = accumulator  # same attribute as in Horovod
    optimizer.register_local_var = reducer.register_local
    gradient_hooks.register(optimizer, reducer)
    return optimizer


def PartialDistributedOptimizer(optimizer: Any, *args: Any, local_layers: Any = None, **kwargs: Any) -> Any:
    """Return a distributed optimizer that does not reduce the gradients of ``local_layers`` (one layer or several)."""
    optimizer = DistributedOptimizer(optimizer, *args, **kwargs)
    for variable in layers_variables(local_layers):
        optimizer.register_local_var(variable)
    return optimizer


class _Accumulator:
    """Adds up this task's gradients over ``passes`` calls. Every task counts the calls in the same way."""

    def __init__(self, passes: int, average: bool) -> None:
        self._passes = passes
        self._average = average
        self._count: Any = None
        self._sums: list[Any] = []

    @property
    def counter(self) -> Any:
        """The number of calls whose gradients have been added up since gradients were last applied."""
        return self._count

    def add(self, optimizer: Any, grads: list[Any], variables: list[Any], reducer: GradientReducer, apply: Any) -> None:
        if any(isinstance(g, tf.IndexedSlices) for g in grads) and not reducer.sparse_as_dense:
            raise InvalidInput(
                "`sparse_as_dense` must be True to accumulate sparse gradients over several passes, got "
                f"backward_passes_per_step={self._passes}",
                field="sparse_as_dense",
            )
        if not optimizer.built:
            optimizer.build(variables)
        if self._count is None:
            with tf.init_scope():
                self._count = tf.Variable(0, trainable=False)
                self._sums = [tf.Variable(tf.zeros(v.shape, v.dtype), trainable=False) for v in variables]
        for total, gradient in zip(self._sums, grads, strict=True):
            if gradient is not None:
                total.assign_add(tf.convert_to_tensor(gradient))
        self._count.assign_add(1)
        iterations = getattr(optimizer, "inner_optimizer", optimizer)._iterations

        def step() -> tf.Tensor:
            sums = [None if g is None else s.read_value() for s, g in zip(self._sums, grads, strict=True)]
            reduced = reducer.reduce(sums, variables)
            if self._average:
                reduced = [None if g is None else g / self._passes for g in reduced]
            apply(reduced, variables)
            self._count.assign(0)
            for total in self._sums:
                total.assign(tf.zeros(total.shape, total.dtype))
            return tf.constant(0)

        def wait() -> tf.Tensor:
            iterations.assign_add(1)
            return tf.constant(0)

        tf.cond(self._count >= self._passes, step, wait)
