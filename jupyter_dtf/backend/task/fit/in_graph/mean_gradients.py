"""Computes the mean of the replicas' gradients on the client. Dense gradients are transferred as one tensor per replica
and dtype.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ..arithmetic import Rows, joined, merged
from ..lookups import Lookups


@dataclass
class WeightedGradients:
    """A replica's weighted gradients: the dense ones concatenated into one vector per dtype, and the sparse ones as
    ``Rows``, keyed by their indices in the list of gradients. ``positions``: the indices of the gradients that each
    vector consists of.
    """

    flat: dict[tf.DType, tf.Tensor]
    positions: dict[tf.DType, list[int]]
    sparse: dict[int, Rows]


def weighted(grads: Sequence[Any], variables: Sequence[Any], weight: Any, lookups: Lookups) -> WeightedGradients:
    """Return ``grads`` (None: no gradient), multiplied by ``weight``, which is a number or a scalar tensor."""
    positions: dict[tf.DType, list[int]] = {}
    sparse: dict[int, Rows] = {}
    for position, (grad, variable) in enumerate(zip(grads, variables, strict=True)):
        if isinstance(grad, tf.IndexedSlices):
            values = grad.values * tf.cast(weight, grad.values.dtype)
            keys = lookups.keys(grad.indices)
            keys = None if keys is None else tf.cast(keys, grad.indices.dtype)
            sparse[position] = Rows(values, grad.indices, tuple(variable.shape), keys)
        elif grad is not None:
            positions.setdefault(grad.dtype, []).append(position)
    flat = {
        dtype: tf.concat([tf.reshape(grads[p], [-1]) for p in chosen], 0) * tf.cast(weight, dtype)
        for dtype, chosen in positions.items()
    }
    return WeightedGradients(flat, positions, sparse)


def mean_gradients(replicas: Sequence[WeightedGradients], variables: Sequence[Any]) -> list[Any]:
    """Return each variable's mean gradient (None: no gradient), which is the sum of the replicas' weighted gradients.
    See ``lookups`` for which rows of sparse gradients are summed.
    """
    grads: list[Any] = [None] * len(variables)
    for dtype, chosen in replicas[0].positions.items():
        total = tf.add_n([replica.flat[dtype] for replica in replicas])
        parts = tf.split(total, [math.prod(variables[p].shape) for p in chosen])
        for position, part in zip(chosen, parts, strict=True):
            grads[position] = tf.reshape(part, variables[position].shape)
    for position in replicas[0].sparse:
        grads[position] = merged(joined([replica.sparse[position] for replica in replicas]))
    return grads
