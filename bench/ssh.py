"""The time from ``cluster.fit`` to the first step, on three hosts over SSH, compared with three local workers.

The hosts are namespaces of this machine (``tests/python/machines.py``), so both have the same cores.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import jupyter_dtf as dtf
from tests.python.machines import Net, why_not

from . import by_hand, digits
from .submit import first_step
from .table import Row

ROUNDS = 5
PAUSE_S = 2.0
WORKERS = 3


def measure() -> list[Row]:
    if lacking := why_not():
        print(f"ssh: not measured, {lacking}", file=sys.stderr)
        return []
    with tempfile.TemporaryDirectory() as directory, Net(Path(directory), ["ada", "bert", "cleo"]) as net:
        far = dtf.Cluster(
            WORKERS,
            backend="ssh",
            hosts=[machine.entry for machine in net.machines],
            key_file=str(net.key),
            known_hosts=str(net.known_hosts),
        )
        with dtf.Cluster(WORKERS) as near, far:
            for cluster in (near, far):
                _submit(cluster)  # wait until the cluster is up and its modules are imported
            times: dict[str, list[float]] = {"near": [], "far": []}
            for _ in range(ROUNDS):
                times["near"].append(_submit(near))
                times["far"].append(_submit(far))
    ours, local = statistics.median(times["far"]), statistics.median(times["near"])
    return [
        Row("submit to first step over SSH, against local", f"{ours:.2f} s", f"{local:.2f} s", ours / local, "<=", 1.3)
    ]


def _submit(cluster: dtf.Cluster) -> float:
    time.sleep(PAUSE_S)
    x, y = digits.data()
    begin = time.time()
    run = cluster.fit(
        digits.network(), x, y, batch_size=digits.BATCH, epochs=1, threads_per_task=by_hand.THREADS, wait=False
    )
    run.wait()
    return first_step(run) - begin
