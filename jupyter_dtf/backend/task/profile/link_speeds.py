"""Measures the time to send data from one task to another through TensorFlow's servers."""

from __future__ import annotations

import statistics
import time
from contextlib import closing
from typing import Any

import tensorflow as tf

_SIZES = (4 << 10, 1 << 20, 4 << 20)
"""The sizes of the tensors that are sent, in bytes."""
_HOPS = 8
_TIMES = 7


def transfers(own: str, others: list[str], ctx: Any) -> list[list[float]]:
    """Return ``[bytes, one-way seconds]`` for each of the other devices and each size, measured by sending data from
    ``own`` to the device and back.
    """
    return [
        [size, _seconds([own if hop % 2 == 0 else other for hop in range(_HOPS + 1)], size, ctx) / _HOPS]
        for other in others
        for size in _SIZES
    ]


def all_tasks(devices: list[str], ctx: Any) -> float:
    """Return the duration in seconds of a step that runs a no-op on each of the devices."""
    graph = tf.Graph()
    with graph.as_default():
        nothing = []
        for device in devices:
            with tf.compat.v1.device(device):
                nothing.append(tf.no_op())
        run = tf.group(*nothing)
    return _time(graph, run, None, ctx)


def _seconds(way: list[str], size: int, ctx: Any) -> float:
    """Return the duration in seconds of a step that sends a tensor of ``size`` bytes along the devices in ``way``."""
    graph = tf.Graph()
    with graph.as_default():
        with tf.compat.v1.device(way[0]):
            tensor = held = tf.compat.v1.get_variable(
                "tensor", [size // 4], tf.float32, tf.compat.v1.zeros_initializer, use_resource=True
            )
        for device in way:
            with tf.compat.v1.device(device):
                tensor = tf.identity(tensor)
    return _time(graph, tensor.op, held.initializer, ctx)


def _time(graph: Any, run: Any, before: Any, ctx: Any) -> float:
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True  # it would remove no-ops
    config.graph_options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
    with closing(tf.compat.v1.Session(ctx.server.target, graph=graph, config=config)) as session:
        if before is not None:
            session.run(before)
        seconds = []
        for _ in range(_TIMES + 1):
            begin = time.perf_counter()
            session.run(run)
            seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:])  # the first run sets up the tasks
