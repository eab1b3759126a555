"""Compares ``dtf.allreduce`` between two tasks of one host with TensorFlow's own ring: same tensors, in turns."""

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


def seconds_per_sum(_args: object, ctx: dtf.Context) -> dict[str, list[tuple[float, ...]]]:
    """Return the seconds of one sum, (ours, the ring's), for each round, keyed by case."""
    import time

    import tensorflow as tf

    from jupyter_dtf.backend.task.collectives import ops

    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # sets up TensorFlow's collectives, which must come first

    def ours(tensors: Any) -> Any:
        return ops.grouped_allreduce(tensors, "sum")

    def ring(tensors: Any) -> Any:
        def replica() -> Any:
            here = [tf.identity(tensor) for tensor in tensors]  # it needs tensors with a known device
            return tf.distribute.get_replica_context().all_reduce("sum", here)

        return strategy.run(replica)

    def repeated(reduce: Any, times: int) -> Any:
        """Return a function that computes ``times`` sums of sums in sequence, as in the steps of training."""

        @tf.function(autograph=False)
        def sums(tensors: Any) -> Any:
            for _ in range(times):
                tensors = reduce(tensors)
            return tensors

        return sums

    def seconds(sums: Any, tensors: Any, times: int) -> float:
        ops.barrier()
        begin = time.perf_counter()
        last = float(sums(tensors)[-1][-1])
        found = time.perf_counter() - begin
        assert last == float(ctx.size**times), last
        return found / times

    found = {}
    for case, lengths in CASES.items():
        tensors = [tf.ones(length) for length in lengths]
        times = 5 if sum(lengths) > 1_000_000 else 50
        both = [repeated(reduce, times) for reduce in (ours, ring)]
        for sums in both:
            seconds(sums, tensors, times)
        found[case] = [tuple(seconds(sums, tensors, times) for sums in both) for _ in range(ROUNDS)]
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
