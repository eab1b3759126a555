"""A real gang of 64 tasks on this machine: from ``cluster.fit`` to the end of everybody's first step, and its memory.

There are far more tasks than cores, so what counts is that it starts, trains and ends, and what it takes.
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
"""To the first step. On two cores nearly all of it is 64 programs that trace and compile Keras's functions."""
LIMIT_BYTES = 20 << 30


def measure() -> list[Row]:
    import tensorflow as tf  # as the script has it by then

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
        Row(f"{TASKS} tasks here: submit to everybody's first step", f"{started:.1f} s", f"all of it {ended:.1f} s",
            started, "<=", LIMIT_S),
        Row("memory of all its processes together", f"{most.bytes / 2**30:.1f} GiB", "", most.bytes, "<=",
            LIMIT_BYTES),
    ]  # fmt: skip


class _Most:
    """The most memory that a cluster's processes had together while this was entered; shared pages count once."""

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
