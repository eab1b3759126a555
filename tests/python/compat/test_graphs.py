"""Tests of TensorFlow 1 programs: collectives of a graph in any order, variables, the hook, and optimizers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ..backend.task.gang import FakeContext, run_gang
from .tasks import begin


def _several_at_once(ctx: FakeContext) -> None:
    """Run collectives, in different orders on the tasks, in a session with one thread."""
    import tensorflow as tf

    hvd = begin(ctx)
    rank, size = ctx.rank, ctx.size
    total = sum(range(1, size + 1))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [2])
        sums = [hvd.allreduce(x * n, op=hvd.Sum) for n in range(1, 6)]
        rows = hvd.grouped_allgather([x, tf.fill([rank + 1], 7), x[None]])
        root = hvd.broadcast(x, root_rank=size - 1)
        sent, counts = hvd.alltoall(x, splits=[2] + [0] * (size - 1))
        own = hvd.reducescatter(tf.fill([size], float(rank)), op=hvd.Sum)
        unasked = hvd.allreduce(tf.compat.v1.placeholder(tf.float32, [3]))  # never run, never fed
        slope = tf.gradients(hvd.allgather(x), x)[0]
        assert unasked.shape == (3,)
        feed = {x: [rank + 1.0, 1.0]}
        for _ in range(3):
            found = session.run([*sums, *rows, root, sent, counts, own, slope][:: 1 if rank else -1], feed)
            *summed, first, second, third, b, s, c, o, g = found if rank else found[::-1]
            assert [each.tolist() for each in summed] == [[n * total, n * size] for n in range(1, 6)]
            assert first.tolist() == [n for r in range(size) for n in (r + 1, 1)]
            assert second.tolist() == [7] * total
            assert third.shape == (size, 2)
            assert b.tolist() == [size, 1]
            assert len(s) == (2 * size if rank == 0 else 0)
            assert c.tolist() == ([2] * size if rank == 0 else [0] * size)
            assert o.tolist() == [sum(range(size))]
            assert g.tolist() == [1, 1]
        assert session.run(sums[2], feed).tolist() == [3 * total, 3 * size]
        with pytest.raises(tf.errors.FailedPreconditionError, match=r"float32 \[[23]\].*float32 \[[23]\]"):
            session.run(hvd.allreduce(tf.zeros(2 + min(rank, 1))))
        assert session.run(sums[0], feed).tolist() == [total, size]
        branch = tf.cond(x[0] > 100, lambda: x, lambda: hvd.allreduce(x, op=hvd.Sum))
        _, looped = tf.while_loop(
            lambda i, _: i < 3, lambda i, t: (i + 1, hvd.allreduce(t, op=hvd.Max) + 1), [0, tf.fill([2], float(rank))]
        )
        assert [each.tolist() for each in session.run([branch, looped], feed)] == [[total, size], [size + 2] * 2]
        assert hvd.allgather_object(rank) == list(range(size))
    assert int(hvd.allreduce(rank, op=hvd.Sum)) == sum(range(size))


@pytest.mark.parametrize("size", [2, 3])
def test_a_session_orders_its_collectives_by_itself(size: int) -> None:
    run_gang(size, _several_at_once)


def _trained(ctx: FakeContext, passes: int) -> Any:
    import tensorflow as tf

    v1 = tf.compat.v1
    hvd = begin(ctx)
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(24, 3)).astype("float32"), rng.normal(size=(24, 1)).astype("float32")
    with tf.Graph().as_default():
        batch, target = v1.placeholder(tf.float32, [None, 3]), v1.placeholder(tf.float32, [None, 1])
        start = tf.fill([3, 1], 0.1 + ctx.rank)  # the root's value is used
        weights = v1.get_variable("weights", initializer=start, use_resource=passes > 1)
        table = v1.get_variable("table", initializer=tf.zeros([4, 1]), use_resource=True)
        rows = tf.cast(batch[:, 0] > 0, tf.int32)
        loss = tf.reduce_mean((batch @ weights + tf.gather(table, rows) - target) ** 2)
        step = v1.train.get_or_create_global_step()
        optimizer = hvd.DistributedOptimizer(
            v1.train.MomentumOptimizer(0.1, 0.9),
            backward_passes_per_step=passes,
            average_aggregated_gradients=True,
            sparse_as_dense=passes > 1,
        )
        train = optimizer.minimize(loss, global_step=step)
        hooks = [hvd.BroadcastGlobalVariablesHook(0)]
        with v1.train.MonitoredTrainingSession(hooks=hooks) as session:
            for begin_at in range(0, 24, 8):
                share = 8 // ctx.size
                mine = slice(begin_at + ctx.rank * share, begin_at + (ctx.rank + 1) * share)
                parts = np.array_split(np.arange(24)[mine], passes)
                for part in parts:
                    session.run(train, {batch: x[part], target: y[part]})
            found = session.run([weights, table, step])
    assert optimizer.get_slot(weights, "momentum") is not None
    return found


@pytest.mark.parametrize("passes", [1, 2])
def test_an_optimizer_of_tensorflow_1_gives_the_weights_of_one_process(passes: int) -> None:
    (one,) = run_gang(1, lambda ctx: _trained(ctx, passes))
    two = run_gang(2, lambda ctx: _trained(ctx, passes))
    for expected, found, other in zip(one, *two, strict=True):
        np.testing.assert_array_equal(found, other)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert one[2] == 3 * passes


def _variables(ctx: FakeContext) -> None:
    import tensorflow as tf

    hvd = begin(ctx)
    with pytest.raises(RuntimeError, match="hvd.broadcast_variables"):
        hvd.broadcast_global_variables(0)
    eager = [tf.Variable([float(ctx.rank)]), tf.Variable(ctx.rank)]
    given = hvd.broadcast_(eager, root_rank=1, name="all")
    assert [v.numpy().tolist() for v in (*eager, *given)] == [[1.0], 1, [1.0], 1]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        assert session.run(hvd.broadcast_global_variables(0)) is None  # there are none
        kinds = [tf.compat.v1.get_variable(str(r), initializer=[ctx.rank], use_resource=r) for r in (False, True)]
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(hvd.broadcast_global_variables(1))
        assert [session.run(v).tolist() for v in kinds] == [[1], [1]]


def test_variables() -> None:
    run_gang(2, _variables)


def _impatient(ctx: FakeContext) -> None:
    import os

    import tensorflow as tf

    os.environ["DTF_STALL_SECONDS"] = "0.5"
    hvd = begin(ctx)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        sums = [hvd.allreduce(tf.ones(2)) for _ in range(2)]
        with pytest.raises(
            tf.errors.FailedPreconditionError, match="1: allreduce average in a graph on worker:0, 2: allreduce"
        ):
            session.run(sums[ctx.rank])
        assert session.run(sums)[0].tolist() == [1, 1]


def test_runs_of_different_collectives_end_in_an_error() -> None:
    run_gang(2, _impatient)
