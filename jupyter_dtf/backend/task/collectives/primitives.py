"""A communicator's operations on tensors. Their gradients are those of the sum of all tasks' losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from .communicator import Communicator


def meet(comm: Communicator, name: str) -> None:
    """Wait until all tasks have called this function."""
    name = comm.named(name)
    comm.in_order(lambda: comm.reducer.reduce_tensors([tf.zeros([1], tf.int32)], "sum", name))


def reduce(comm: Communicator, tensors: Sequence[tf.Tensor], op: str, name: str) -> list[tf.Tensor]:
    """Return each tensor's sum, min, max or product over the tasks, in one exchange."""
    name = comm.named(name)

    @tf.custom_gradient
    def forward(*inputs: tf.Tensor) -> tuple[list[tf.Tensor], Any]:
        outputs = comm.in_order(lambda: comm.reducer.reduce_tensors(inputs, op, name))

        def gradient(*upstream: Any) -> list[Any]:
            gradients: list[Any] = [None] * len(inputs)
            smooth = [i for i, x in enumerate(inputs) if x.dtype.is_floating]
            chosen = [(inputs[i], outputs[i]) for i in smooth]
            sent = [tf.cast(tf.convert_to_tensor(upstream[i]), inputs[i].dtype) for i in smooth]
            totals = reduce(comm, sent, "sum", f"gradient of {name}") if sent else []
            if op == "product":
                others = [_others_product(comm, x, name) for x, _ in chosen]
                totals = [total * other for total, other in zip(totals, others, strict=True)]
            elif op in ("min", "max"):
                # The task with the extremum gets the gradient, in equal parts if several have it, as in tf.reduce_max.
                masks = [tf.cast(x == y, y.dtype) for x, y in chosen]
                ties = reduce(comm, masks, "sum", f"ties of {name}")
                totals = [total * mask / tie for total, mask, tie in zip(totals, masks, ties, strict=True)]
            for i, total in zip(smooth, totals, strict=True):
                gradients[i] = total
            return gradients

        return outputs, gradient

    return list(forward(*tensors))


def gather(comm: Communicator, tensor: tf.Tensor, name: str, averages: bool = False) -> tf.Tensor:
    """Concatenate all tasks' tensors along the first dimension.

    The gradient is this task's rows of the sum of the upstream gradients, or of their average if ``averages``.
    """
    name = comm.named(name)

    @tf.custom_gradient
    def forward(own: tf.Tensor) -> tuple[tf.Tensor, Any]:
        gathered, rows = comm.in_order(lambda: list(comm.reducer.gather_rows(own, name)))

        def gradient(upstream: Any) -> tf.Tensor:
            total = _upstream(comm, upstream, own, name, averages)
            first = tf.reduce_sum(rows[: comm.rank])
            return tf.ensure_shape(total[first : first + rows[comm.rank]], own.shape)

        return gathered, gradient

    return forward(tensor)


def broadcast(comm: Communicator, tensor: tf.Tensor, root: int, name: str, averages: bool = False) -> tf.Tensor:
    """Return the root's tensor.

    At the root, the gradient is the sum of the upstream gradients, or their average if ``averages``; elsewhere, it is
    zero.
    """
    name = comm.named(name)

    @tf.custom_gradient
    def forward(own: tf.Tensor) -> tuple[tf.Tensor, Any]:
        (sent,) = comm.in_order(lambda: comm.reducer.broadcast_tensors([own], root, name))

        def gradient(upstream: Any) -> tf.Tensor:
            total = _upstream(comm, upstream, own, name, averages)
            if comm.rank == root:
                return total
            with tf.control_dependencies([total]):  # otherwise a graph would prune the unused total
                return tf.zeros_like(total)

        return sent, gradient

    return forward(tensor)


def exchange(comm: Communicator, tensor: tf.Tensor, splits: tf.Tensor, name: str) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the rows from all tasks, and the number of rows from each. Gradients are sent back in the same way."""
    name = comm.named(name)

    @tf.custom_gradient
    def forward(own: tf.Tensor) -> tuple[tuple[tf.Tensor, tf.Tensor], Any]:
        received, rows = comm.in_order(lambda: list(comm.reducer.exchange_rows(own, splits, name)))

        def gradient(upstream: Any, _: Any) -> tf.Tensor:
            returned, _ = exchange(
                comm, tf.cast(tf.convert_to_tensor(upstream), own.dtype), rows, f"gradient of {name}"
            )
            left = tf.shape(own)[0] - tf.shape(returned)[0]  # rows that were not sent to any task
            paddings = tf.concat([[[0, left]], tf.zeros([len(own.shape) - 1, 2], tf.int32)], 0)
            return tf.ensure_shape(tf.pad(returned, paddings), own.shape)

        return (received, rows), gradient

    received, rows = forward(tensor)
    return received, rows


def _upstream(comm: Communicator, upstream: Any, own: tf.Tensor, name: str, averages: bool) -> tf.Tensor:
    sent = tf.cast(tf.convert_to_tensor(upstream), own.dtype)
    (total,) = reduce(comm, [sent], "sum", f"gradient of {name}")
    return total / comm.size if averages else total


def _others_product(comm: Communicator, tensor: tf.Tensor, name: str) -> tf.Tensor:
    everyones = gather(comm, tensor[None], f"factors of {name}")
    return tf.reduce_prod(tf.concat([everyones[: comm.rank], everyones[comm.rank + 1 :]], 0), 0)
