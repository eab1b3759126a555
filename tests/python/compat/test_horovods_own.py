"""Tests of what Horovod does differently from ``dtf``: gradients, integers, errors, process sets and join."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ..backend.task.gang import FakeContext, run_gang
from .tasks import begin


def _gradients(ctx: FakeContext) -> None:
    """Check gradients against Horovod's rules. Outputs have random weights, so that nothing is equal by accident."""
    import tensorflow as tf

    hvd = begin(ctx)
    rank, size = ctx.rank, ctx.size
    rng = np.random.default_rng(5)
    xs = rng.normal(size=(size, 4, 2)).astype("float32")
    together = rng.normal(size=(size, size * 4, 2)).astype("float32")
    bounds = np.cumsum([0] + [4 // size + (r < 4 % size) for r in range(size)])
    mine = slice(bounds[rank], bounds[rank + 1])

    def slope(function: Any, weights: Any) -> Any:
        x = tf.Variable(xs[rank])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(function(x.read_value()) * weights)
        return tape.gradient(loss, x).numpy()

    ws = together[:, :4]
    scattered = np.concatenate([ws[r, bounds[r] : bounds[r + 1]] for r in range(size)])
    expected = {
        "sum": (lambda x: hvd.allreduce(x, op=hvd.Sum), ws[rank], ws.sum(0)),
        "average": (hvd.allreduce, ws[rank], ws.mean(0)),
        "min": (lambda x: hvd.allreduce(x, op=hvd.Min), ws[rank], ws.min(0)),
        "factors": (
            lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=2.0, postscale_factor=3.0),
            ws[rank],
            6 * ws.sum(0),
        ),
        "grouped": (lambda x: hvd.grouped_allreduce([x, x])[1], ws[rank], ws.mean(0)),
        "allgather": (hvd.allgather, together[rank], together.mean(0)[4 * rank : 4 * rank + 4]),
        "grouped_allgather": (
            lambda x: hvd.grouped_allgather([x])[0],
            together[rank],
            together.mean(0)[4 * rank : 4 * rank + 4],
        ),
        "broadcast": (lambda x: hvd.broadcast(x, 1), ws[rank], ws.mean(0) if rank == 1 else 0 * ws[0]),
        "reducescatter, sum": (lambda x: hvd.reducescatter(x, op=hvd.Sum), ws[rank, mine], scattered * size),
        "reducescatter, average": (hvd.reducescatter, ws[rank, mine], scattered),
        "grouped_reducescatter": (
            lambda x: hvd.grouped_reducescatter([x], postscale_factor=2.0)[0],
            ws[rank, mine],
            2 * scattered,
        ),
        "fp16": (lambda x: hvd.allreduce(x, compression=hvd.Compression.fp16), np.ones((4, 2)), np.ones((4, 2))),
    }
    for what, (function, weights, gradient) in expected.items():
        for way in (function, tf.function(function, autograph=False)):
            np.testing.assert_allclose(slope(way, weights), gradient, rtol=1e-5, atol=1e-6, err_msg=what)


@pytest.mark.parametrize("size", [2, 3])
def test_gradients_are_horovods(size: int) -> None:
    run_gang(size, _gradients)


def _numbers(ctx: FakeContext) -> None:
    import tensorflow as tf

    hvd = begin(ctx)
    rank, size = ctx.rank, ctx.size
    whole = tf.constant([10, 11 + rank, -7], tf.int32)  # sums for two: 20, 23, -14
    total = np.array([10 * size, 11 * size + sum(range(size)), -7 * size])
    assert hvd.allreduce(whole, op=hvd.Average).numpy().tolist() == np.trunc(total / size).tolist()
    assert hvd.allreduce(whole, op=hvd.Sum, postscale_factor=0.5).numpy().tolist() == np.trunc(total / 2).tolist()
    halves = np.trunc(np.array([[10, 11 + r, -7] for r in range(size)]) * 0.5).sum(0)
    assert hvd.allreduce(whole, op=hvd.Sum, prescale_factor=0.5).numpy().tolist() == halves.tolist()
    assert hvd.reducescatter(whole, op=hvd.Average).dtype == tf.int32
    grouped = hvd.grouped_allreduce([whole, tf.constant(1.0)], op=hvd.Max)
    assert [grouped[0].numpy().tolist(), float(grouped[1])] == [[10, 10 + size, -7], 1.0]
    assert int(hvd.grouped_allreduce([tf.constant(3)], op=hvd.Product)[0]) == 3**size

    class Halved:
        """A compressor that the program defines."""

        @staticmethod
        def compress(tensor: Any) -> Any:
            return tensor / 2, "known"

        @staticmethod
        def decompress(tensor: Any, ctx: Any) -> Any:
            assert ctx == "known"
            return tensor * 2

    assert hvd.allreduce(tf.fill([2], 4.0), op=hvd.Sum, compression=Halved).numpy().tolist() == [4 * size] * 2
    sent, known = hvd.Compression.fp16.compress(tf.ones(2))
    assert (sent.dtype, hvd.Compression.fp16.decompress(sent, known).dtype) == (tf.float16, tf.float32)
    assert hvd.Compression.fp16.compress(whole)[0].dtype == tf.int32
    slices = tf.IndexedSlices(tf.fill([1, 2], rank + 1.0), tf.constant([rank]), tf.constant([size, 2]))
    assert hvd.allreduce(slices).values.numpy()[rank].tolist() == [(rank + 1) / size] * 2


def _errors(ctx: FakeContext) -> None:
    import keras
    import tensorflow as tf

    from jupyter_dtf.errors import InvalidInput

    hvd = begin(ctx)
    x, slices = tf.ones(3), tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([3, 2]))
    for call, kind, words in [
        (lambda: hvd.allreduce(x[ctx.rank :]), tf.errors.FailedPreconditionError, r"float32 \[3\]"),
        (lambda: hvd.broadcast(x, ctx.rank), tf.errors.FailedPreconditionError, "broadcast from 1"),
        (
            lambda: hvd.alltoall(tf.ones(ctx.size + 1)),
            tf.errors.InvalidArgumentError,
            "the rows can be divided evenly among",
        ),
        (
            lambda: hvd.alltoall(x, splits=[4, 0][: ctx.size]),
            tf.errors.InvalidArgumentError,
            "add up to at most the number of rows",
        ),
        (lambda: hvd.reducescatter(1.0), ValueError, "at least one dimension, got a scalar"),
    ]:
        for way in (call, tf.function(call, autograph=False)):
            with pytest.raises(kind, match=words):
                way()
    for call, kind, words in [
        (lambda: hvd.allreduce(slices, op=hvd.Min), NotImplementedError, "averaged or summed, got op='min'"),
        (lambda: hvd.allreduce(slices, op=hvd.Adasum), NotImplementedError, "averaged or summed, got op='adasum'"),
        (lambda: hvd.allreduce(slices, prescale_factor=0.5), NotImplementedError, "got prescale_factor=0.5"),
        (lambda: hvd.allreduce(x, op="mean"), InvalidInput, "hvd.Product"),
        (lambda: hvd.SyncBatchNormalization(fused=True), InvalidInput, "`fused` must be False, got True"),
        (lambda: hvd.allreduce(x, compression="zip"), InvalidInput, "`compression` must be .* got 'zip'"),
    ]:
        with pytest.raises(kind, match=words):
            call()
    assert hvd.SyncBatchNormalization(fused=False, axis=1).get_config()["axis"] == 1
    assert keras.layers.deserialize(keras.layers.serialize(keras.layers.BatchNormalization(axis=1))).axis == 1
    assert hvd.allreduce(x).numpy().tolist() == [1, 1, 1]


def _process_sets(ctx: FakeContext) -> None:
    import tensorflow as tf

    from jupyter_dtf.compat.horovod.process_sets import ids_and_ranks

    hvd = begin(ctx)
    everyone = list(range(ctx.size))
    first = hvd.ProcessSet([0])
    hvd.init(process_sets=[first])
    rest = hvd.add_process_set(range(1, ctx.size))
    assert ids_and_ranks() == {0: everyone, 1: [0], 2: everyone[1:]}
    assert str(rest) == f"ProcessSet(process_set_id=2, ranks={everyone[1:]}, mpi_comm=None)"
    assert [hvd.global_process_set.process_set_id, hvd.global_process_set.size()] == [0, ctx.size]
    own, other = (first, rest) if ctx.rank == 0 else (rest, first)
    assert int(hvd.allreduce(1, op=hvd.Sum, process_set=own)) == own.size()
    assert [int(hvd.process_set_included_op(s.process_set_id)) for s in (own, other)] == [1, 0]
    assert int(hvd.size_op(own.process_set_id)) == own.size()
    with pytest.raises(tf.errors.InvalidArgumentError, match="`process_set` must include this task"):
        hvd.allreduce(1.0, process_set=other)
    for ranks in ([0], everyone):
        with pytest.raises(ValueError, match="must differ from existing ones"):
            hvd.add_process_set(ranks)
    fake = hvd.ProcessSet([0])
    fake.process_set_id = 10
    with pytest.raises(ValueError, match="must be one of"):
        hvd.allreduce(1.0, process_set=fake)
    assert hvd.remove_process_set(first)
    assert first.process_set_id is None
    assert not hvd.remove_process_set(first)
    assert not hvd.remove_process_set(hvd.global_process_set)
    again = hvd.add_process_set([0])
    assert again.process_set_id == 1
    if again.included():
        assert float(hvd.allreduce(2.0, process_set=again)) == 2.0
    with pytest.raises(RuntimeError, match=r"add_process_set\(\[0"):
        hvd.add_process_set([0, 1] if ctx.rank else [0, 2])


@pytest.mark.parametrize("check", [_numbers, _errors])
def test_as_horovod(check: Any) -> None:
    run_gang(2, check)


def test_process_sets() -> None:
    run_gang(3, _process_sets)


def _uneven(ctx: FakeContext) -> tuple[list[float], int]:
    """Train with one batch more on each task than on the one before it. The first task joins first."""
    import keras
    import tensorflow as tf

    from jupyter_dtf.errors import InvalidInput

    hvd = begin(ctx)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
    weights, large = keras.Variable([0.0]), keras.Variable(tf.zeros(100_000))

    @tf.function
    def step() -> Any:
        optimizer.apply([tf.constant([ctx.rank + 1.0]), tf.ones(100_000)], [weights, large])
        return hvd.allreduce(tf.constant(2), op=hvd.Sum)

    counted = [int(step()) for _ in range(ctx.rank + 1)]
    last = int(hvd.join())
    assert last == int(hvd.join())  # and again, because no task has more to do
    if ctx.rank == 0:
        with pytest.raises(InvalidInput, match="After worker:0 joined, other tasks must only sum or average"):
            hvd.join()
    else:
        with pytest.raises(InvalidInput, match="got allgather of float32"):
            hvd.allgather(tf.ones(2))
    return [*counted, float(weights.value[0]), float(large.value[0])], last


def test_a_task_without_data_joins() -> None:
    tasks = run_gang(3, _uneven)
    assert [last for _, last in tasks] == [2, 2, 2]
    assert tasks[2][0][:3] == [6, 4, 2]
    assert tasks[2][0][3] == pytest.approx(-(6 + 5 + 3) / 3)  # divided by all, as in Horovod
    assert tasks[2][0][4] == pytest.approx(-(3 + 2 + 1) / 3)
    assert tasks[0][0][:1] == [6]
