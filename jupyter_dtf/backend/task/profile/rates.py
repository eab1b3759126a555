"""Measures a device's floating-point operations per second, by multiplying float32 matrices."""

from __future__ import annotations

import statistics
import time
from contextlib import closing
from typing import Any

import tensorflow as tf

_SIDE, _SIDE_ON_GPU = 512, 2048
_CHAIN, _CHAIN_ON_GPU = 4, 16  # on a GPU, four small products take less time than starting the step
_TIMES = 9


def flops_per_s(device: str, ctx: Any) -> float:
    """Return the floating-point operations per second in a chain of matrix products of a typical layer's size."""
    on_gpu = "GPU" in device
    side, chain = (_SIDE_ON_GPU, _CHAIN_ON_GPU) if on_gpu else (_SIDE, _CHAIN)
    graph = tf.Graph()
    with graph.as_default(), tf.compat.v1.device(device):
        matrix = tf.compat.v1.get_variable(
            "matrix", [side, side], tf.float32, tf.compat.v1.zeros_initializer, use_resource=True
        )
        product = value = matrix.read_value()
        for _ in range(chain):
            product = tf.matmul(product, value)
    with closing(tf.compat.v1.Session(ctx.server.target, graph=graph)) as session:
        session.run(matrix.initializer)
        seconds = []
        for _ in range(_TIMES + 1):
            begin = time.perf_counter()
            session.run(product.op)
            seconds.append(time.perf_counter() - begin)
    return chain * 2 * side**3 / statistics.median(seconds[1:])
