"""Compares ``cluster.predict`` of a million rows on two tasks with ``model.predict`` in one process.

The process has one thread, as each task has, so that two threads are compared with one. It is also run with all cores.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np

import jupyter_dtf as dtf

from .digits import network, repeated
from .table import Row

ROUNDS = 3
ROWS, BATCH = 1_000_000, 32
LEAST = 1.8

ALONE = """
import json, sys, time
import numpy as np
import tensorflow as tf
threads = int(sys.argv[1])
if threads:
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
from bench.predict import BATCH, ROWS
from bench.digits import network, repeated
x, _ = repeated(ROWS)
model = network()
model.predict(x[:BATCH], verbose=0)
begin = time.perf_counter()
model.predict(x, batch_size=BATCH, verbose=0)
print(json.dumps(time.perf_counter() - begin))
"""


def alone(threads: int) -> float:
    """Return the seconds that ``model.predict`` takes in a new process with this many threads (0: all cores)."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(threads)], env=dict(os.environ), stdout=subprocess.PIPE, check=True, text=True
    )
    return float(json.loads(done.stdout.splitlines()[-1]))


def measure() -> list[Row]:
    x, _ = repeated(ROWS)
    model = network()
    ours, one, whole = [], [], []
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        cluster.run(lambda _args, _ctx: None)  # wait until the cluster is up
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            answers = cluster.predict(model, x, batch_size=BATCH, threads_per_task=1)
            ours.append(time.perf_counter() - begin)
            one.append(alone(1))
            whole.append(alone(0))
    assert answers.shape == (ROWS, 10) and answers.dtype == np.float32
    our, other, cores = (statistics.median(times) for times in (ours, one, whole))
    print(f"model.predict with all cores: {cores:.2f} s")
    return [
        Row("predict of 1 million rows, two tasks", f"{our:.2f} s", f"{other:.2f} s", other / our, ">=", LEAST),
        Row("  against one process with all cores", f"{our:.2f} s", f"{cores:.2f} s", cores / our, ">=", LEAST),
    ]
