"""Reducers for training tasks that have parameter servers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from ...collectives.contract import Reducer
from .server_client import Client


class ServedReducer(Reducer):
    """Sums formed by the first ``ps`` task; for tasks that go in step."""

    is_timed = True

    def __init__(self, client: Client, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._client = client

    def reduce_tensors(self, tensors: Sequence[tf.Tensor], op: str, name: str) -> list[tf.Tensor]:
        if op != "sum":
            raise NotImplementedError(f"A ps task forms sums. Received: {op}")
        return [self._sum(tensor) for tensor in tensors]

    def close(self, failed: bool = False) -> None:
        """Nothing to leave: the client has said so to the servers."""

    def _sum(self, tensor: tf.Tensor) -> tf.Tensor:
        total = tf.numpy_function(lambda a: self._client.meet(np.ravel(a)).reshape(a.shape), [tensor], tensor.dtype)
        total.set_shape(tensor.shape)
        return total


class Apart(Reducer):
    """A place among tasks that do not wait for each other: their shares of the data, and no collective."""

    is_timed = True

    def reduce_tensors(self, tensors: Sequence[tf.Tensor], op: str, name: str) -> list[tf.Tensor]:
        raise NotImplementedError(f"These tasks do not wait for each other. Received: {name}")

    def close(self, failed: bool = False) -> None:
        pass
