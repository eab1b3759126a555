"""Gradient tapes whose gradients are reduced over all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from .reduce_ops import Average, Compression
from .synced_gradients import GradientReducer, checked_groups, layers_variables


class DistributedGradientTape:
    """Wraps a tape so that ``gradient`` returns the average or the sum of the gradients of all tasks.

    Every task must call ``gradient``. All other attributes are those of the wrapped tape.

    Args:
        gradtape: The tape to wrap.
        device_dense: Accepted but ignored.
        device_sparse: Accepted but ignored.
        compression: The compression of tensors that are sent, one of ``hvd.Compression``.
        sparse_as_dense: Whether to convert sparse gradients to dense ones before reducing.
        op: ``hvd.Average`` or ``hvd.Sum``.
        gradient_predivide_factor: As in ``DistributedOptimizer``.
        num_groups: The older form of ``groups``.
        groups: As in ``DistributedOptimizer``.
        process_set: The tasks that take part; None: all tasks.
        scale_local_gradients: Whether to divide the gradients of local variables by the number of tasks.
    """

    def __init__(
        self,
        gradtape: tf.GradientTape,
        device_dense: str = "",
        device_sparse: str = "",
        compression: Any = Compression.none,
        sparse_as_dense: bool = False,
        op: str = Average,
        gradient_predivide_factor: float = 1.0,
        num_groups: int = 0,
        groups: int | Sequence[Sequence[Any]] | None = None,
        process_set: Any = None,
        scale_local_gradients: bool = True,
    ) -> None:
        self._tape = gradtape
        self._reducer = GradientReducer(
            op=op,
            compression=compression,
            sparse_as_dense=sparse_as_dense,
            gradient_predivide_factor=gradient_predivide_factor,
            groups=checked_groups(groups, num_groups),
            process_set=process_set,
            scale_local_gradients=scale_local_gradients,
        )

    def __enter__(self) -> DistributedGradientTape:
        self._tape.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._tape.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tape, name)

    def register_local_source(self, source: Any) -> None:
        """Do not reduce the gradient with respect to this variable."""
        self._reducer.register_local(source)

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        use_generic_names: bool = False,
        unconnected_gradients: Any = tf.UnconnectedGradients.NONE,
    ) -> Any:
        """Return the gradients of the wrapped tape, reduced over the tasks, in the structure of ``sources``."""
        gradients = self._tape.gradient(target, sources, output_gradients, unconnected_gradients)
        if not isinstance(sources, (list, tuple, dict)):
            return self._reducer.reduce([gradients], [sources])[0]
        reduced = self._reducer.reduce(tf.nest.flatten(gradients), tf.nest.flatten(sources))
        return tf.nest.pack_sequence_as(sources, reduced)

    def get_local_and_global_gradients(
        self, target: Any, sources: Any, output_gradients: Any = None, use_generic_names: bool = False
    ) -> tuple[list[tuple[Any, Any]], list[tuple[Any, Any]]]:
        """Return two lists of ``(variable, gradient)`` pairs: those of the local variables, and those of all others."""
        pairs = list(zip(sources, self.gradient(target, sources, output_gradients), strict=True))
        local = [pair for pair in pairs if self._reducer.is_local(pair[0])]
        return local, [pair for pair in pairs if not self._reducer.is_local(pair[0])]


def PartialDistributedGradientTape(
    gradtape: tf.GradientTape, *args: Any, local_layers: Any = None, **kwargs: Any
) -> DistributedGradientTape:
    """Return a distributed tape that does not reduce the gradients of ``local_layers`` (one layer or several)."""
    tape = DistributedGradientTape(gradtape, *args, **kwargs)
    for variable in layers_variables(local_layers):
        tape.register_local_source(variable)
    return tape
