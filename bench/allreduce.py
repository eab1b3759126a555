"""``dtf.allreduce`` between two tasks of one host, against TensorFlow's own ring: same tensors, same run, in turns."""

from __future__ import annotations

import statistics
from typing import Any

import jupyter_dtf as dtf

from .table import Row

ROUNDS = 9
CASES = {
    "40 MB, one tensor": [10_000_000],
    "40 MB, 100 tensors": [100_000] * 100,
    "four tensors of 1,000 floats": [1_000] * 4,
}


def seconds_per_sum(_args: object, ctx: Any) -> dict[str, list[tuple[float, float]]]:
    """For each case and round, what one sum takes: ours, and the ring's, seconds."""
    import time

    import tensorflow as tf

    from jupyter_dtf.backend.task.collectives import ops

    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # TensorFlow's collectives, which come before all else

    @tf.function(autograph=False)
    def ours(tensors: Any) -> Any:
        return ops.grouped_allreduce(tensors, "sum")

    @tf.function(autograph=False)
    def ring(tensors: Any) -> Any:
        def replica() -> Any:
            here = [tf.identity(tensor) for tensor in tensors]  # it wants to know on which device they are
            return tf.distribute.get_replica_context().all_reduce("sum", here)

        return strategy.run(replica)

    def timed(function: Any, tensors: Any, times: int) -> float:
        ops.barrier()
        begin = time.perf_counter()
        for _ in range(times):
            sums = function(tensors)
        total = float(sums[-1][-1])
        seconds = time.perf_counter() - begin
        assert total == ctx.size, total
        return seconds / times

    found = {}
    for case, lengths in CASES.items():
        tensors = [tf.ones(length) for length in lengths]
        times = 5 if sum(lengths) > 1_000_000 else 200
        for function in (ours, ring):
            timed(function, tensors, times)
        found[case] = [(timed(ours, tensors, times), timed(ring, tensors, times)) for _ in range(ROUNDS)]
    return found


def measure() -> list[Row]:
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        found, _ = cluster.run(seconds_per_sum, wait=False).result()
    rows = []
    for case in CASES:
        ours, rings = (statistics.median(times) * 1000 for times in zip(*found[case], strict=True))
        ratio = statistics.median(ring / our for our, ring in found[case])
        rows.append(Row(f"all-reduce, {case}", f"{ours:.2f} ms", f"{rings:.2f} ms", ratio, ">=", 3))
    return rows
