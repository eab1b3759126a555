"""Reduces gradients over the tasks, for optimizers and tapes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import keras
import tensorflow as tf

from ...backend.task.collectives import ops
from ...errors import InvalidInput
from . import process_sets
from .reduce_ops import Average, Compression, Sum, checked_compression, checked_op


@dataclass
class GradientReducer:
    """Reduces gradients over the tasks of a process set. Dense gradients are fused in groups.

    With ``groups=None``, all gradients are fused; a number distributes them evenly over that many groups. A list of
    lists of variables defines the groups, and each variable that is in no group forms its own group. Raises
    InvalidInput for unsupported values.
    """

    op: str = Average
    compression: Any = Compression.none
    sparse_as_dense: bool = False
    gradient_predivide_factor: float = 1.0
    groups: int | Sequence[Sequence[Any]] | None = None
    process_set: Any = None
    scale_local_gradients: bool = True
    _local: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.op = checked_op(self.op)
        if self.op not in (Average, Sum):
            raise InvalidInput(f"`op` must be hvd.Average or hvd.Sum for gradients, got {self.op!r}", field="op")
        self.compression = checked_compression(self.compression)
        if self.gradient_predivide_factor != 1.0 and self.op != Average:
            raise InvalidInput(
                "`gradient_predivide_factor` must be 1 unless op is hvd.Average, whose division it splits, got "
                f"{self.gradient_predivide_factor!r} with op={self.op!r}",
                field="gradient_predivide_factor",
            )
        if isinstance(self.groups, int) and self.groups < 1:
            raise InvalidInput(f"`groups` must be at least 1, got {self.groups}", field="groups")

    def register_local(self, variable: Any) -> None:
        """Do not reduce this variable's gradient. With ``scale_local_gradients``, divide it by the number of tasks."""
        self._local[id(held(variable))] = held(variable)

    def is_local(self, variable: Any) -> bool:
        return id(held(variable)) in self._local

    def reduce(self, gradients: Iterable[Any], variables: Iterable[Any]) -> list[Any]:
        """Return the reduced gradients in order. None stays None; IndexedSlices stay sparse unless ``sparse_as_dense``.

        Every task in the process set must call this. In tasks outside of the set, the gradients are returned unchanged.
        """
        gradients, variables = list(gradients), list(variables)
        size = process_sets.set_size(self.process_set)
        if size == 1 or not process_sets.included(self.process_set):
            return gradients
        dense = []
        for index, (gradient, variable) in enumerate(zip(gradients, variables, strict=True)):
            if gradient is None:
                continue
            if self.is_local(variable):
                if self.scale_local_gradients:
                    gradients[index] = _scaled(gradient, 1.0 / size)
            elif isinstance(gradient, tf.IndexedSlices) and not self.sparse_as_dense:
                values, ctx = self.compression.compress(gradient.values)
                sent = tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
                total = ops.allreduce(sent, **self._how())
                values = self.compression.decompress(total.values, ctx)
                gradients[index] = tf.IndexedSlices(values, total.indices, total.dense_shape)
            else:
                gradients[index] = tf.convert_to_tensor(gradient)
                dense.append(index)
        for group in self._grouped(dense, variables):
            packed = [self.compression.compress(gradients[i]) for i in group]
            totals = ops.grouped_allreduce([sent for sent, _ in packed], **self._how())
            for index, total, (_, ctx) in zip(group, totals, packed, strict=True):
                gradients[index] = self.compression.decompress(total, ctx)
        return gradients

    def _how(self) -> dict[str, Any]:
        return {
            "op": self.op,
            "prescale_factor": 1.0 / self.gradient_predivide_factor,
            "postscale_factor": self.gradient_predivide_factor,
            "process_set": process_sets.ours(self.process_set),
        }

    def _grouped(self, indices: list[int], variables: list[Any]) -> list[list[int]]:
        if not indices:
            return []
        if self.groups is None:
            return [indices]
        if isinstance(self.groups, int):
            count = min(self.groups, len(indices))
            bounds = [len(indices) * i // count for i in range(count + 1)]
            return [indices[a:b] for a, b in pairwise(bounds)]
        number = {id(held(v)): n for n, group in enumerate(self.groups) for v in group}
        groups: dict[Any, list[int]] = {}
        for index in indices:
            key = id(held(variables[index]))
            groups.setdefault(number.get(key, f"variable {index}"), []).append(index)
        return list(groups.values())


def held(variable: Any) -> Any:
    """Return the TensorFlow variable that a Keras variable contains. TensorFlow variables are returned unchanged."""
    return variable._value if isinstance(variable, keras.Variable) else variable


def _scaled(gradient: Any, factor: float) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * factor


def checked_groups(groups: Any, num_groups: int) -> Any:
    """Return the groups given by Horovod's two arguments, of which ``num_groups`` is the older form of ``groups``."""
    if num_groups:
        warnings.warn("num_groups is now called groups", DeprecationWarning, stacklevel=3)
        return num_groups if groups is None else groups
    return groups


def layers_variables(layers: Any) -> list[Any]:
    """Return the trainable variables of one or more layers. Raises InvalidInput for anything that is not a layer."""
    layers = [] if layers is None else [layers] if isinstance(layers, keras.layers.Layer) else list(layers)
    for layer in layers:
        if not isinstance(layer, keras.layers.Layer):
            raise InvalidInput(f"`local_layers` must be Keras layers, got {layer!r}", field="local_layers")
    return [variable for layer in layers for variable in layer.trainable_variables]
