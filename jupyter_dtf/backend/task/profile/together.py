"""A barrier for tasks, so that they measure at the same time."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class Together:
    """One task's side of the barrier. Every task of a run must create one; it uses the task's server."""

    def __init__(self, ctx: Any) -> None:
        self._graph = tf.Graph()
        job, index = ctx.tasks[0].split(":")
        with self._graph.as_default(), tf.compat.v1.device(f"/job:{job}/task:{index}/device:CPU:0"):
            # One release queue per task: from a common one, an early task could take another task's release.
            came, *go = (_queue(name, ctx.size) for name in ("came", *(f"go{rank}" for rank in range(ctx.size))))
            self._come = came.enqueue(0)
            with tf.control_dependencies([came.dequeue_many(ctx.size)] if ctx.is_chief else []):
                self._release = tf.group(*(each.enqueue(0) for each in go)) if ctx.is_chief else tf.no_op()
            self._go = go[ctx.rank].dequeue()
        self._session = tf.compat.v1.Session(ctx.server.target, graph=self._graph)

    def meet(self) -> None:
        """Wait until all tasks have called this method."""
        for operation in (self._come, self._release, self._go):
            self._session.run(operation)

    def close(self) -> None:
        self._session.close()


def _queue(name: str, size: int) -> Any:
    return tf.queue.FIFOQueue(size, [tf.int32], [()], shared_name=name, name=name)
