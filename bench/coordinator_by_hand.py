"""The plain alternative to asynchronous parameter servers: a hand-written ``ClusterCoordinator`` loop.

The chief, two workers and one ``ps`` are processes with one thread each. The chief prints the updates per second.
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
WARM_UP_UPDATES = 100


def updates_per_second(updates: int) -> float:
    """Run the program with two workers and one ``ps``, and return its updates per second."""
    holders = [socket.socket() for _ in range(4)]
    for holder in holders:
        holder.bind(("127.0.0.1", 0))
    ports = [f"127.0.0.1:{holder.getsockname()[1]}" for holder in holders]
    for holder in holders:
        holder.close()
    spec = {"chief": ports[:1], "worker": ports[1:3], "ps": ports[3:]}
    tasks = [("ps", 0), ("worker", 0), ("worker", 1), ("chief", 0)]
    processes = []
    for kind, index in tasks:
        config = {"cluster": spec, "task": {"type": kind, "index": index}}
        environment = {**os.environ, "TF_CONFIG": json.dumps(config), "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [sys.executable, "-m", "bench.coordinator_by_hand", str(updates)]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
    output, _ = processes[-1].communicate()
    for process in processes[:-1]:
        process.kill()
        process.communicate()
    return float(json.loads(output.splitlines()[-1]))


def main(updates: int) -> None:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(THREADS)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type != "chief":
        config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=THREADS, inter_op_parallelism_threads=max(2, THREADS)
        )
        server = tf.distribute.Server(
            resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, config=config
        )
        server.join()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

    from . import digits

    with strategy.scope():
        model = digits.network()
        optimizer = model.optimizer
        optimizer.build(model.trainable_variables)
        loss_fn = model.loss

    def dataset_fn() -> Any:
        dataset = tf.data.Dataset.from_tensor_slices(digits.data()).cache().shuffle(2000).repeat().batch(digits.BATCH)
        return dataset.prefetch(4)

    def replica_step(batch: Any) -> Any:
        images, labels = batch
        with tf.GradientTape() as tape:
            loss = loss_fn(labels, model(images, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    @tf.function
    def step(iterator: Any) -> Any:
        return strategy.run(replica_step, args=(next(iterator),))

    iterator = iter(coordinator.create_per_worker_dataset(dataset_fn))

    def schedule(count: int) -> None:
        for _ in range(count):
            coordinator.schedule(step, args=(iterator,))
        coordinator.join()

    schedule(WARM_UP_UPDATES)
    begin = time.perf_counter()
    schedule(updates)
    print(json.dumps(updates / (time.perf_counter() - begin)), flush=True)
    os._exit(0)  # a normal exit would wait for the coordinator's threads


if __name__ == "__main__":
    main(int(sys.argv[1]))
