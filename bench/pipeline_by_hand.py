"""The plain alternative to a pipeline: a graph with layers that are placed by hand on the devices of two tasks.

Each task is a process with one thread. The first one prints the seconds of its steps. Only one task computes at a time.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from typing import Any

THREADS = 1


def seconds_of_steps(units: list[int], stages: list[int], batch: int, steps: int) -> list[float]:
    """Train dense layers with these ``units`` on the digits, layer k on task ``stages[k]``. Return the seconds of each
    step.
    """
    holders = [socket.socket() for _ in range(2)]
    for holder in holders:
        holder.bind(("127.0.0.1", 0))
    spec = {"worker": [f"127.0.0.1:{holder.getsockname()[1]}" for holder in holders]}
    for holder in holders:
        holder.close()
    processes = []
    for index in (1, 0):
        arguments = json.dumps({"units": units, "stages": stages, "batch": batch, "steps": steps})
        config = {"cluster": spec, "task": {"type": "worker", "index": index}}
        environment = {**os.environ, "TF_CONFIG": json.dumps(config), "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [sys.executable, "-m", "bench.pipeline_by_hand", arguments]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
    output, _ = processes[-1].communicate()
    processes[0].kill()
    processes[0].communicate()
    return list(json.loads(output.splitlines()[-1]))


def main(units: list[int], stages: list[int], batch: int, steps: int) -> None:
    import tensorflow as tf

    from . import digits

    v1: Any = tf.compat.v1
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    config = v1.ConfigProto(intra_op_parallelism_threads=THREADS, inter_op_parallelism_threads=THREADS)
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, config=config
    )
    if resolver.task_id:
        server.join()

    x, y = digits.repeated(batch)
    with tf.Graph().as_default() as graph:
        with tf.device("/job:worker/task:0"):
            inputs = h = v1.placeholder(tf.float32, [None, x.shape[1]])
            labels = v1.placeholder(tf.int64, [None])
        variables = []
        for layer, (size, task) in enumerate(zip(units, stages, strict=True)):
            with tf.device(f"/job:worker/task:{task}"):
                kernel = v1.get_variable(f"kernel_{layer}", [h.shape[1], size], use_resource=True)
                bias = v1.get_variable(f"bias_{layer}", [size], initializer=v1.zeros_initializer(), use_resource=True)
                h = tf.nn.bias_add(tf.matmul(h, kernel), bias)
                h = tf.nn.relu(h) if layer < len(units) - 1 else h
                variables += [kernel, bias]
        with tf.device(f"/job:worker/task:{stages[-1]}"):
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=h))
        gradients = v1.gradients(loss, variables, colocate_gradients_with_ops=True)
        updates = []
        for variable, gradient in zip(variables, gradients, strict=True):
            with tf.device(variable.device):
                updates.append(variable.assign_sub(0.01 * gradient))
        with v1.Session(server.target, graph=graph) as session:
            session.run(v1.global_variables_initializer())
            seconds = []
            for _ in range(steps):
                begin = time.perf_counter()
                session.run([loss, *[update.op for update in updates]], {inputs: x, labels: y})
                seconds.append(time.perf_counter() - begin)
    print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
