"""Reducers for training tasks with parameter servers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from ...collectives.primitive import Reducer
from .server_client import Client


class ServedReducer(Reducer):
    """A reducer for synchronous tasks. The first ``ps`` task computes its sums."""

    is_timed = True

    def __init__(self, client: Client, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._client = client

    def reduce_tensors(self, tensors: Sequence[tf.Tensor], op: str, name: str) -> list[tf.Tensor]:
        if op != "sum":
            raise NotImplementedError(f'`op` must be "sum" on a ps task, got {op!r}')
        return [self._sum(tensor) for tensor in tensors]

    def close(self, failed: bool = False) -> None:
        """Do nothing: the client disconnects from the servers."""

    def _sum(self, tensor: tf.Tensor) -> tf.Tensor:
        total = tf.numpy_function(lambda a: self._client.meet(np.ravel(a)).reshape(a.shape), [tensor], tensor.dtype)
        total.set_shape(tensor.shape)
        return total


class Apart(Reducer):
    """A reducer for asynchronous tasks, which only divides the data among them and has no collectives."""

    is_timed = True

    def reduce_tensors(self, tensors: Sequence[tf.Tensor], op: str, name: str) -> list[tf.Tensor]:
        raise NotImplementedError(f"`strategy` must be synchronous for collectives, got the collective {name!r}")

    def close(self, failed: bool = False) -> None:
        pass
