"""The overhead of a trial: trials on two slots, compared with processes started by hand."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jupyter_dtf as dtf

from .table import Row

PLACES = 2
STARTS, STARTS_BY_HAND = 100, 8
SECONDS = 200
BY_HAND = "import tensorflow as tf; print(float(tf.constant(1.0)))"


def start_and_report(number: int) -> None:
    """Start TensorFlow and report once, as a trial without any other work."""
    import tensorflow as tf

    dtf.report(0, loss=float(tf.constant(1.0)))


def one_second(number: int) -> None:
    time.sleep(1.0)


def report_and_return(params: dict[str, Any], ctx: dtf.Context) -> float:
    ctx.report(0, loss=params["x"])
    return float(params["x"])


def by_hand(_number: int) -> None:
    subprocess.run([sys.executable, "-c", BY_HAND], capture_output=True, check=True)


def took_s(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def measure() -> list[Row]:
    with dtf.Cluster(jobs={"worker": PLACES}) as cluster:
        dtf.launch(cluster, start_and_report, {"number": range(2 * PLACES)})  # wait until the cluster is up
        rate = STARTS / took_s(lambda: dtf.launch(cluster, start_and_report, {"number": range(STARTS)}))
        searched = STARTS / took_s(
            lambda: cluster.search(report_and_return, {"x": (0.0, 1.0)}, trials=STARTS, objective="loss", seed=1)
        )
        seconds = took_s(lambda: dtf.launch(cluster, one_second, {"number": range(SECONDS)}))
    with ThreadPoolExecutor(PLACES) as pool:
        hand = STARTS_BY_HAND / took_s(lambda: list(pool.map(by_hand, range(STARTS_BY_HAND))))
    least = SECONDS / PLACES
    return [
        Row("trials that start TensorFlow and report, two slots", f"{rate:.1f}/s", f"{hand:.2f}/s", rate, ">=", 10),
        Row("the same, suggested by TPE one by one", f"{searched:.1f}/s", f"{hand:.2f}/s", searched, ">=", 10),
        Row(
            f"{SECONDS} trials of 1 s on two slots, over the minimum",
            f"{seconds:.1f} s",
            f"{least:.0f} s",
            seconds / least,
            "<=",
            1.05,
        ),
    ]
