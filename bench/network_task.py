"""One of two tasks on two simulated machines, started by ``bench.network``. Prints its measurements as JSON.

``python -m bench.network_task CASE RANK DIRECTORY``, where CASE is a key of ``CASES``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .link import ADDRESSES

ROUNDS = 5
TENSORS = {
    "40 MB, one tensor": [10_000_000],
    "40 MB, 100 tensors": [100_000] * 100,
    "four tensors of 1,000 floats": [1_000] * 4,
}
EXAMPLES, STEPS, SKIPPED = 512, 14, 4
HIDDEN = (1050,) * 10
"""10 million parameters, in layers that can be sent one by one. With only two layers, little would overlap."""


def context(rank: int, directory: Path, threads: int) -> Any:
    """Create and set the context of this process as one of the two tasks."""
    from jupyter_dtf.backend.task import context, thread_pools
    from jupyter_dtf.backend.task.recorder import Recorder
    from jupyter_dtf.schema.launch import TaskSpec

    thread_pools.limit(threads)
    spec = TaskSpec(
        run_id="bench",
        cluster="bench",
        job_name="worker",
        task_index=rank,
        cluster_spec={"worker": {at: f"{address}:7001" for at, address in enumerate(ADDRESSES)}},
        rank=rank,
        size=2,
        local_rank=0,
        local_size=1,
        machines=["a", "b"],
        threads=threads,
        run_dir=str(directory),
        stop_grace_s=1.0,
        checkpoint=False,
        secret="5e" * 32,
        links=[f"{address}:7002" for address in ADDRESSES],
        shared_dir=str(directory),
        task_dir=str(directory),
    )

    class Timed(context.Context):
        """The context of a task without a host. It records the time of each step."""

        points: list[float] = []

        def report(self, step: float | None = None, **values: Any) -> None:
            self.points.append(time.perf_counter())

    ctx = Timed(spec, Recorder(os.open(os.devnull, os.O_WRONLY), spec.task))
    os.environ["TF_CONFIG"] = ctx.cluster_spec.as_tf_config(spec.job_name, rank)
    context.set_current(ctx)
    return ctx


def sums(ctx: Any) -> dict[str, list[tuple[float, ...]]]:
    """Return the seconds of sums of TENSORS, (ours, TensorFlow's ring), for each round, keyed by case."""
    from jupyter_dtf.backend.task.collectives import make_reducer

    ring = make_reducer("ring", ctx)
    ours = make_reducer("tcp", ctx)
    reductions = [reducer.reduce_tensors for reducer in (ours, ring)]
    return {case: _in_turns(ours, reductions, lengths) for case, lengths in TENSORS.items()}


def large(ctx: Any) -> list[tuple[float, ...]]:
    """Return the seconds of a sum of 40 MB, and of the same sum sent as fp16, for each round."""
    from jupyter_dtf.backend.task.collectives import make_reducer, ops

    ours = make_reducer("tcp", ctx)

    def as_float16(tensors: Any, op: str, name: str) -> Any:
        return ops.grouped_allreduce(tensors, op, compression="fp16")

    return _in_turns(ours, [ours.reduce_tensors, as_float16], [10_000_000])


def training(ctx: Any) -> list[tuple[float, ...]]:
    """Return the steps per second with 10 million parameters, in buckets and in one exchange, for each round."""
    import numpy as np

    from jupyter_dtf.backend.task.fit.allreduce.training import train
    from jupyter_dtf.backend.task.fit.job import Arrays, FitJob
    from jupyter_dtf.backend.task.model import keras_io
    from jupyter_dtf.schema.strategy import AllReduce

    from . import digits

    model = digits.network(HIDDEN)
    x, y = digits.repeated(EXAMPLES * 2 * STEPS)
    found = []
    for _ in range(3):
        times = []
        for fusion_bytes in (None, 0):
            ctx.points.clear()
            strategy = AllReduce(fusion_bytes=fusion_bytes)
            train(
                FitJob(keras_io.pack(model), Arrays(x, np.asarray(y)), batch_size=2 * EXAMPLES, strategy=strategy), ctx
            )
            taken = ctx.points[SKIPPED:]
            times.append((len(taken) - 1) / (taken[-1] - taken[0]))
        found.append(tuple(times))
    return found


def _repeated(reduce: Callable[..., Any], times: int) -> Any:
    """Return a function that computes ``times`` sums of sums in sequence, as in the steps of training."""
    import tensorflow as tf

    @tf.function(autograph=False)
    def sums(tensors: Any) -> Any:
        for _ in range(times):
            tensors = reduce(list(tensors), "sum", "sum")
        return tensors

    return sums


def _in_turns(reducer: Any, reductions: list[Callable[..., Any]], lengths: list[int]) -> list[tuple[float, ...]]:
    import numpy as np
    import tensorflow as tf

    tensors = [tf.ones(length) for length in lengths]
    times = 4 if sum(lengths) > 1_000_000 else 50
    functions = [_repeated(reduce, times) for reduce in reductions]
    found = []
    for number in range(ROUNDS + 1):
        seconds = []
        for function in functions:
            reducer.sum(np.zeros(1))  # so that both tasks begin together
            begin = time.perf_counter()
            last = float(function(tensors)[-1][-1])
            seconds.append((time.perf_counter() - begin) / times)
            assert last == 2.0**times, last
        if number:
            found.append(tuple(seconds))
    return found


CASES: dict[str, tuple[Callable[[Any], Any], int]] = {"sums": (sums, 1), "large": (large, 1), "training": (training, 2)}
"""The function that measures each case, and the number of threads per task."""


def main(case: str, rank: int, directory: Path) -> None:
    measure, threads = CASES[case]
    print(json.dumps(measure(context(rank, directory, threads))), flush=True)
    sys.stdin.read()  # wait, because the other task may still need this one for TensorFlow's ring
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
