"""Tasks that wait for each other, so that what they measure is measured at the same time."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class Together:
    """To be made by every task of a run, each with its server."""

    def __init__(self, ctx: Any) -> None:
        self._graph = tf.Graph()
        job, index = ctx.tasks[0].split(":")
        with self._graph.as_default(), tf.compat.v1.device(f"/job:{job}/task:{index}/device:CPU:0"):
            came, go = (
                tf.queue.FIFOQueue(ctx.size, [tf.int32], [()], shared_name=name, name=name) for name in ("came", "go")
            )
            self._come = came.enqueue(0)
            self._release = go.enqueue_many(came.dequeue_many(ctx.size)) if ctx.is_chief else tf.no_op()
            self._go = go.dequeue()
        self._session = tf.compat.v1.Session(ctx.server.target, graph=self._graph)

    def meet(self) -> None:
        """Wait until all tasks have come here."""
        for operation in (self._come, self._release, self._go):
            self._session.run(operation)

    def close(self) -> None:
        self._session.close()
