"""The time from the start of ``python script.py`` to the first step, compared with tasks started by hand."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from . import by_hand
from .table import Row

ROUNDS = 3

CLUSTER_FIRST = """
import jupyter_dtf as dtf
cluster = dtf.Cluster(jobs={"worker": 2})
from bench import digits
model = digits.network()
"""

KERAS_FIRST = """
import keras
import jupyter_dtf as dtf
cluster = dtf.Cluster(jobs={"worker": 2})
from bench import digits
model = digits.network()
"""

TRAIN = """
x, y = digits.data()
run = cluster.fit(model, x, y, batch_size=digits.BATCH, epochs=1, threads_per_task=1)
points = run.metrics.query("metric == 'loss'")
print(points.groupby("task")["time"].min().max())
cluster.close()
"""


def script(text: str) -> float:
    """Return the seconds from the start of a script to the end of its first step."""
    begin = time.time()
    command = [sys.executable, "-c", text]
    output = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    return float(output.split()[-1]) - begin


def measure() -> list[Row]:
    times: dict[str, list[float]] = {"hand": [], "cluster": [], "keras": []}
    for _ in range(ROUNDS):
        gang = by_hand.start_gang(0)
        times["hand"].append(max(task["first_step"] for task in gang) - gang[0]["started"])
        times["cluster"].append(script(CLUSTER_FIRST + TRAIN))
        times["keras"].append(script(KERAS_FIRST + TRAIN))
    hand, cluster, keras = (statistics.median(times[name]) for name in ("hand", "cluster", "keras"))
    return [
        Row("script to first step, cluster first", f"{cluster:.2f} s", f"{hand:.2f} s", cluster / hand, "<=", 1.3),
        Row("script to first step, Keras first", f"{keras:.2f} s", f"{hand:.2f} s", keras / hand, "<=", 2.2),
    ]
