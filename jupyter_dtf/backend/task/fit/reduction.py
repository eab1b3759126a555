"""Reduces gradients over the tasks: dense ones in buckets, optionally compressed, and sparse ones by their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import tensorflow as tf

from ....schema.strategy import AllReduce
from ..collectives.primitive import Reducer
from .arithmetic import Gradient, Rows

_WIRE_TYPES = {"fp16": tf.float16, "bf16": tf.bfloat16}
_FP16_EXPONENT = 15  # 2 ** 15 is half of the range of float16


class Reduction:
    """Computes the sums of one optimizer's gradients over the tasks, with the options of ``strategy``."""

    def __init__(self, reducer: Reducer, strategy: AllReduce, name: str) -> None:
        self._reducer = reducer
        self._wire_type = _WIRE_TYPES.get(strategy.compression)
        chosen = strategy.fusion_bytes
        self._bucket_bytes = reducer.bucket_bytes if chosen is None else chosen
        self._name = name

    def __call__(self, gradients: Sequence[Gradient], lanes: tf.Tensor) -> tuple[list[Gradient], tf.Tensor]:
        """Return the sums of the gradients, and of a few numbers (``lanes``) that are never compressed. A collective.

        ``Rows`` are not added up, but concatenated in rank order.
        """
        received = list(gradients)
        for number, bucket in enumerate(self._buckets(gradients)):
            name = f"{self._name} {number}"
            sent, restored = self._packed([gradients[i] for i in bucket], name)
            sums = self._reducer.reduce_tensors([*sent, lanes] if number == 0 else sent, "sum", name)
            if number == 0:
                *sums, lanes = sums
            for index, value in zip(bucket, restored(sums), strict=True):
                received[index] = value
        for index, gradient in enumerate(gradients):
            if isinstance(gradient, Rows):
                received[index] = self._gathered(gradient, f"{self._name} rows {index}")
        return received, lanes

    def _buckets(self, gradients: Sequence[Gradient]) -> list[list[int]]:
        """Return the indices of the dense gradients in each bucket, last layers first, as in the backward pass."""
        buckets: list[list[int]] = [[]]
        filled = 0
        for index in reversed(range(len(gradients))):
            gradient = gradients[index]
            if gradient is None or isinstance(gradient, Rows):
                continue
            if filled >= self._bucket_bytes > 0:
                buckets.append([])
                filled = 0
            buckets[-1].append(index)
            filled += gradient.shape.num_elements() * gradient.dtype.size
        return buckets

    def _gathered(self, rows: Rows, name: str) -> Rows:
        sent, restored = self._packed([rows.values], name)
        values = restored([self._reducer.gather_tensor(sent[0], f"{name} values")])[0]
        if rows.keys is None:
            indices = self._reducer.gather_tensor(rows.indices, f"{name} indices")
            return replace(rows, values=values, indices=indices)
        pairs = self._reducer.gather_tensor(tf.stack([rows.indices, rows.keys], 1), f"{name} indices")
        return replace(rows, values=values, indices=pairs[:, 0], keys=pairs[:, 1])

    def _packed(
        self, tensors: list[tf.Tensor], name: str
    ) -> tuple[list[tf.Tensor], Callable[[list[tf.Tensor]], list[tf.Tensor]]]:
        """Return the tensors to send, and a function that restores the tensors, or their sums, after the exchange."""
        wire, types = self._wire_type, [t.dtype for t in tensors]
        if wire is None or not tensors:
            return tensors, lambda sums: sums
        if wire == tf.bfloat16:  # it has the range of float32
            sent = [tf.cast(t, wire) for t in tensors]
            return sent, lambda sums: [tf.cast(s, dtype) for s, dtype in zip(sums, types, strict=True)]
        scales = self._scales(tensors, f"{name} peaks")
        sent = [tf.cast(t * tf.cast(scale, t.dtype), wire) for t, scale in zip(tensors, scales, strict=True)]
        return sent, lambda sums: [
            tf.cast(s, dtype) / tf.cast(scale, dtype) for s, dtype, scale in zip(sums, types, scales, strict=True)
        ]

    def _scales(self, tensors: list[tf.Tensor], name: str) -> list[tf.Tensor]:
        """Return, for each tensor, the power of two that scales the largest possible sum close to float16's maximum.

        The sum of the tasks' largest values bounds every sum. If this bound is not finite, the scale is 1, so that the
        tensor's sum is not finite either.
        """
        peaks = tf.stack([tf.maximum(tf.cast(tf.reduce_max(tf.abs(t)), tf.float32), 0.0) for t in tensors])
        bounds = self._reducer.sum_tensor(peaks, name)
        exponents = _FP16_EXPONENT - tf.math.ceil(tf.math.log(bounds) / tf.math.log(2.0))
        usable = tf.math.is_finite(bounds) & (bounds > 0)
        scales = tf.where(usable, tf.pow(2.0, tf.clip_by_value(exponents, -100.0, 100.0)), 1.0)
        return list(tf.unstack(scales))
