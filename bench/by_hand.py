"""The plain alternative: a program with a hand-written loop under ``MultiWorkerMirroredStrategy``.

It is started once for each task, with TF_CONFIG, and prints the time at which its first step ended, and its steps per
second. ``start_gang(steps)`` starts it in two tasks with one thread each.
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
WARM_UP_STEPS = 10


def start_gang(steps: int, tasks: int = 2, hidden: tuple[int, ...] = (128,)) -> list[dict[str, Any]]:
    """Run the program in ``tasks`` processes, with these hidden layers.

    Return a dict for each process: ``started``, ``first_step`` (both in seconds since the epoch), ``steps_per_second``.
    """
    ports = []
    for _ in range(tasks):
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            ports.append(holder.getsockname()[1])
    spec = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    started = time.time()
    processes = []
    for index in range(tasks):
        config = {"cluster": spec, "task": {"type": "worker", "index": index}}
        environment = {**os.environ, "TF_CONFIG": json.dumps(config), "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [sys.executable, "-m", "bench.by_hand", str(steps), *map(str, hidden)]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
    results = []
    for process in processes:
        output, _ = process.communicate()
        results.append({**json.loads(output.splitlines()[-1]), "started": started})
    return results


def main(steps: int, hidden: tuple[int, ...]) -> None:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(THREADS)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    from . import digits

    x, y = digits.data()
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(len(x)).repeat().batch(digits.BATCH)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    dataset = dataset.with_options(options).prefetch(4)
    with strategy.scope():
        model = digits.network(hidden)
        optimizer = model.optimizer
        optimizer.build(model.trainable_variables)
        loss_fn = model.loss
        loss_fn.reduction = "sum"
    iterator = iter(strategy.experimental_distribute_dataset(dataset))

    def replica_step(batch: Any) -> Any:
        images, labels = batch
        with tf.GradientTape() as tape:
            loss = loss_fn(labels, model(images, training=True)) / digits.BATCH
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients = tf.distribute.get_replica_context().all_reduce("sum", gradients)
        optimizer.apply(gradients, model.trainable_variables)
        return loss  # this replica's share: summing it over the replicas would cost another collective per step

    @tf.function
    def step(batches: Any) -> Any:
        return strategy.run(replica_step, args=(next(batches),))

    float(step(iterator))
    first_step = time.time()
    for _ in range(WARM_UP_STEPS):
        step(iterator)
    begin = time.perf_counter()
    for _ in range(steps):
        loss = step(iterator)
    float(loss) if steps else None
    seconds = time.perf_counter() - begin
    print(json.dumps({"first_step": first_step, "steps_per_second": steps / seconds if steps else 0.0}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), tuple(map(int, sys.argv[2:])))
