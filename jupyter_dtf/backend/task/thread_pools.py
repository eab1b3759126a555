"""The sizes of TensorFlow's thread pools in a task."""

from __future__ import annotations


def limit(threads: int) -> None:
    """Let this process compute with ``threads`` threads. Must be called before TensorFlow is initialized."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(operations_at_once(threads))


def operations_at_once(threads: int) -> int:
    """Return the number of operations that run in parallel. TensorFlow's default would use more cores than a task has.

    An operation that exchanges gradients with other tasks waits without computing. With one more thread, as many
    gradients are computed in the meantime as without an exchange. A task with a single thread gets no other, because
    operations would then compete for its core.
    """
    return threads + 1 if threads > 1 else 1
