"""Collectives for several tasks per machine: shared memory within machines, TensorFlow's collectives between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from .primitive import Reducer
from .shared_memory import SharedMemoryReducer


class HierarchicalReducer(Reducer):
    """A reducer that combines ``local``, for the tasks of this machine, with ``leaders``, between machines.

    ``leaders`` connects the first task of each machine, and is None in other tasks. The network carries the traffic of
    only one task per machine.
    """

    def __init__(self, rank: int, size: int, local: Reducer, leaders: Reducer | None) -> None:
        super().__init__(rank, size)
        self._local = local
        self._leaders = leaders

    def reduce_tensors(self, tensors: Sequence[tf.Tensor], op: str, name: str) -> list[tf.Tensor]:
        reduced = self._local.reduce_tensors(tensors, op, name)
        if self._leaders is not None:
            reduced = self._leaders.reduce_tensors(reduced, op, name)
        return self._local.broadcast_tensors(reduced, 0, f"{name} to all")

    def on_different(self, tell: Callable[[str], None]) -> None:
        """Make the reducer call ``tell`` when tasks on this machine make different calls. Other machines cannot detect
        this.
        """
        if isinstance(self._local, SharedMemoryReducer):
            self._local.on_different(tell)

    def give_up(self, why: str) -> None:
        self._local.give_up(why)
        if self._leaders is not None:
            self._leaders.give_up(why)

    def close(self, failed: bool = False) -> None:
        self._local.close(failed)
