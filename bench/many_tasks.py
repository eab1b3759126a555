"""A real gang of 64 tasks on this machine: the time until every task has completed a step, and the memory used.

There are far more tasks than cores. What matters is that the gang starts, trains and ends, and how much time and memory
it needs.
"""

from __future__ import annotations

import sys
import threading
import time

import psutil

import jupyter_dtf as dtf
from jupyter_dtf.backend.machine import cluster_processes
from jupyter_dtf.backend.viewer import connections

from . import digits
from .submit import first_step
from .table import Row

TASKS = 64
EPOCHS = 2
LIMIT_S = 180
"""The limit for the time to the first step. On two cores, 64 programs spend nearly all of it on tracing and compiling
Keras's functions."""
LIMIT_BYTES = 20 << 30


def measure() -> list[Row]:
    import tensorflow as tf  # a script would already have imported it

    assert tf.__version__
    x, y = digits.data()
    with dtf.Cluster({"worker": TASKS}) as cluster:
        cluster.wait_ready()
        token = connections.read(cluster.name).token
        most = _Most(token)
        begun = time.time()
        run = cluster.fit(digits.network(), x, y, batch_size=TASKS * 4, epochs=EPOCHS, threads_per_task=1, wait=False)
        with most:
            run.wait()
        started = first_step(run) - begun
        print(f"many_tasks: losses {run.history['loss']}", file=sys.stderr)
        ended = time.time() - begun
    return [
        Row(f"{TASKS} tasks on one machine: submit to the first step of all", f"{started:.1f} s",
            f"whole run {ended:.1f} s", started, "<=", LIMIT_S),
        Row("memory of all processes together", f"{most.bytes / 2**30:.1f} GiB", "", most.bytes, "<=",
            LIMIT_BYTES),
    ]  # fmt: skip


class _Most:
    """Measures the maximum memory of all processes of a cluster within the context. Shared pages count once."""

    def __init__(self, token: str) -> None:
        self.bytes = 0
        self._token = token
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> _Most:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(2.0):
            total = 0
            for pid in cluster_processes.members(self._token):
                try:
                    total += psutil.Process(pid).memory_full_info().pss
                except psutil.Error:
                    continue
            self.bytes = max(self.bytes, total)
