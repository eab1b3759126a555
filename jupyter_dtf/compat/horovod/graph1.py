"""Horovod for programs that build TensorFlow 1 graphs: variables, session hook, and optimizers."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ...errors import InvalidInput
from .collectives import broadcast_variables
from .synced_gradients import GradientReducer

_Optimizer: Any = tf.compat.v1.train.Optimizer
_SessionRunHook: Any = tf.compat.v1.train.SessionRunHook


def broadcast_global_variables(root_rank: int) -> Any:
    """Return an op that assigns the root's values to all variables of the graph. Raises RuntimeError in eager mode."""
    if tf.executing_eagerly():
        raise RuntimeError(
            "hvd.broadcast_global_variables requires a TensorFlow 1 graph, because TensorFlow 2 has no list of global "
            "variables. Call hvd.broadcast_variables(model.variables, root_rank) instead, and again with "
            "optimizer.variables"
        )
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(_SessionRunHook):
    """Assigns the root's values to all variables when a ``MonitoredTrainingSession`` has created or restored them."""

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = root_rank
        self.bcast_op: Any = None

    def begin(self) -> None:
        if self.bcast_op is None or self.bcast_op.graph is not tf.compat.v1.get_default_graph():
            self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self.bcast_op)


class GraphOptimizer(_Optimizer):
    """An optimizer of ``tf.compat.v1.train`` that wraps another one and passes it the gradients of all tasks.

    If ``passes`` is k > 1, gradients are added up over k runs of the op that ``apply_gradients`` returns, and reduced
    and applied in the k-th run. Their sum is divided by k if ``averages`` is true. ``global_step`` counts every run.
    """

    def __init__(self, optimizer: Any, reducer: GradientReducer, passes: int, averages: bool, name: str | None) -> None:
        super().__init__(use_locking=False, name=name or f"Distributed{type(optimizer).__name__}")
        if passes > 1 and tf.executing_eagerly():
            raise InvalidInput(
                "`backward_passes_per_step` above 1 needs a graph with an optimizer of TensorFlow 1, "
                f"got {passes} in eager mode",
                field="backward_passes_per_step",
            )
        self._optimizer = optimizer
        self._reducer = reducer
        self._passes = passes
        self._averages = averages
        self.register_local_var = reducer.register_local

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Return ``(gradient, variable)`` pairs. Gradients are reduced over all tasks unless they must be added up
        first.
        """
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        if self._passes > 1:
            return list(pairs)
        gradients, variables = [g for g, _ in pairs], [v for _, v in pairs]
        return list(zip(self._reducer.reduce(gradients, variables), variables, strict=True))

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        if self._passes == 1:
            return self._optimizer.apply_gradients(grads_and_vars, global_step=global_step, name=name)
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        if any(isinstance(g, tf.IndexedSlices) for g, _ in pairs) and not self._reducer.sparse_as_dense:
            raise InvalidInput(
                "`sparse_as_dense` must be True to accumulate sparse gradients over several passes, got "
                f"backward_passes_per_step={self._passes}",
                field="sparse_as_dense",
            )
        variables = [v for _, v in pairs]
        count = tf.compat.v1.Variable(0, trainable=False, use_resource=True, name="passes")
        sums = [
            tf.compat.v1.Variable(tf.zeros(v.shape, v.dtype.base_dtype), trainable=False, use_resource=True)
            for v in variables
        ]
        added = [total.assign_add(tf.convert_to_tensor(g)) for total, (g, _) in zip(sums, pairs, strict=True)]
        with tf.control_dependencies([*added, count.assign_add(1)]):
            full = count.read_value() >= self._passes

        def step() -> tf.Tensor:
            gradients = self._reducer.reduce([total.read_value() for total in sums], variables)
            if self._averages:
                gradients = [gradient / self._passes for gradient in gradients]
            applied = self._optimizer.apply_gradients(list(zip(gradients, variables, strict=True)))
            with tf.control_dependencies([applied]):
                cleared = [total.assign(tf.zeros_like(total)) for total in sums]
            with tf.control_dependencies([*cleared, count.assign(0)]):
                return tf.constant(True)

        with tf.control_dependencies([tf.cond(full, step, lambda: tf.constant(False))]):
            if global_step is None:
                return tf.no_op(name)
            return global_step.assign_add(1)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self) -> Any:
        return self._optimizer.variables()
