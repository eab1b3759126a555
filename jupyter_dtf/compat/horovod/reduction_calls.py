"""Reductions with Horovod's behavior: integers may be averaged and scaled, and gradients are reduced like values.

The gradients are defined as in Horovod. By contrast, the gradients of ``dtf`` are those of the sum of all tasks'
losses; docs/horovod.md compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from ...backend.task.collectives import primitives
from ...backend.task.collectives.calls import call_name
from ...backend.task.collectives.communicator import Communicator
from ...backend.task.collectives.inputs import check_place
from ...backend.task.collectives.reductions import own_rows
from .reduce_ops import Average, Sum
from .translated_errors import NotOffered


@dataclass(frozen=True)
class Reduction:
    """The reduction to apply to tensors.

    ``before`` and ``after`` are the factors for the tensors and for the result. ``call`` is the function that the
    program has called.
    """

    op: str
    before: float = 1.0
    after: float = 1.0
    call: str = "allreduce"
    name: str | None = None

    @property
    def words(self) -> str:
        scales = self.before != 1 or self.after != 1
        factors = {"prescale_factor": self.before, "postscale_factor": self.after} if scales else {}
        return call_name(f"{self.call} {self.op}", self.name, **factors)


def reduced(comm: Communicator, tensors: Sequence[tf.Tensor], how: Reduction) -> list[tf.Tensor]:
    """Reduce each tensor, in one exchange. The gradient is the same reduction of the upstream gradients."""
    if not tensors:
        primitives.meet(comm, f"{how.words} of no tensors")
        return []

    @tf.custom_gradient
    def forward(*inputs: tf.Tensor) -> tuple[list[tf.Tensor], Any]:
        def gradient(*upstream: Any) -> list[Any]:
            smooth = [i for i, x in enumerate(inputs) if x.dtype.is_floating]
            sent = [tf.cast(tf.convert_to_tensor(upstream[i]), inputs[i].dtype) for i in smooth]
            gradients: list[Any] = [None] * len(inputs)
            if sent:
                again = replace(how, call=f"gradient of {how.call}")
                for i, total in zip(smooth, reduced(comm, sent, again), strict=True):
                    gradients[i] = total
            return gradients

        return _reduced(comm, inputs, how), gradient

    return list(forward(*tensors))


def scattered(comm: Communicator, tensors: Sequence[tf.Tensor], how: Reduction) -> list[tf.Tensor]:
    """Return this task's rows of each reduction.

    The gradient is the concatenation of all tasks' upstream gradients; for a sum, it is multiplied by the number of
    tasks.
    """
    if not tensors:
        primitives.meet(comm, f"{how.words} of no tensors")
        return []

    @tf.custom_gradient
    def forward(*inputs: tf.Tensor) -> tuple[list[tf.Tensor], Any]:
        outputs = [own_rows(comm, total) for total in _reduced(comm, inputs, how)]

        def gradient(*upstream: Any) -> list[Any]:
            factor = how.before * how.after * (comm.size if how.op == Sum else 1)
            gradients: list[Any] = []
            for x, slope in zip(inputs, upstream, strict=True):
                if x.dtype.is_floating:
                    sent = scaled(tf.cast(tf.convert_to_tensor(slope), x.dtype), factor)
                    total = primitives.gather(comm, sent, f"gradient of {how.words}", averages=True)
                    gradients.append(tf.ensure_shape(total, x.shape))
                else:
                    gradients.append(None)
            return gradients

        return outputs, gradient

    return list(forward(*tensors))


def gathered_slices(comm: Communicator, slices: tf.IndexedSlices, how: Reduction) -> tf.IndexedSlices:
    """Gather the slices of all tasks. For an average, divide by the number of tasks. Raises NotOffered for factors."""
    if how.before != 1 or how.after != 1:
        raise NotOffered(
            f"tf.IndexedSlices do not support factors, got prescale_factor={how.before}, postscale_factor={how.after}",
            field="prescale_factor",
        )
    check_place()
    values = primitives.gather(comm, slices.values, f"{how.words}, slices", averages=True)
    indices = primitives.gather(comm, slices.indices, f"{how.words}, slices' indices", averages=True)
    if how.op == Average:
        values = values / tf.cast(comm.size, values.dtype)
    return tf.IndexedSlices(values, indices, slices.dense_shape)


def scaled(tensor: tf.Tensor, factor: float) -> tf.Tensor:
    """Multiply a tensor, keeping its dtype.

    Integers are multiplied in float64 and truncated, 16-bit floats in float32.
    """
    if factor == 1:
        return tensor
    if tensor.dtype.is_floating and tensor.dtype.size > 2:
        return tensor * tf.cast(factor, tensor.dtype)
    wide = tf.float32 if tensor.dtype.is_floating else tf.float64
    return tf.cast(tf.cast(tensor, wide) * tf.cast(factor, wide), tensor.dtype)


def _reduced(comm: Communicator, tensors: Sequence[tf.Tensor], how: Reduction) -> list[tf.Tensor]:
    check_place()
    name = comm.named(how.words)
    sent = [scaled(tensor, how.before) for tensor in tensors]
    merge = Sum if how.op == Average else how.op
    totals = comm.in_order(lambda: comm.reducer.reduce_tensors(sent, merge, name))
    return [scaled(total, how.after / (comm.size if how.op == Average else 1)) for total in totals]
