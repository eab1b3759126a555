"""Tests of the collectives that programs call: values, types, sparse tensors, and gradients compared with formulas."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.errors import InvalidInput, Unavailable

from ..gang import FakeContext, run_gang


def enter(ctx: FakeContext, machines: list[str]) -> Any:
    """Make this process one of the tasks on those machines. Return the module of the collectives."""
    from jupyter_dtf.backend.task import context
    from jupyter_dtf.backend.task.collectives import ops

    ctx.machines = machines
    context.set_current(cast(Any, ctx))
    ops.barrier()  # before TensorFlow does anything else
    return ops


def both_ways(function: Any) -> list[Any]:
    """Return the function itself, and the function as a ``tf.function``."""
    import tensorflow as tf

    return [function, tf.function(function, autograph=False)]


def gradient_of(function: Any, x: Any, weights: Any) -> Any:
    """Return ``function(x)``, and the gradient of this task's loss with respect to ``x``.

    The loss is the sum of the function's values times ``weights``. Eager and traced results must be equal.
    """
    import tensorflow as tf

    def value_and_gradient(x: Any, weights: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
            loss = tf.reduce_sum(y * weights)
        return y, tape.gradient(loss, x)

    eager = value_and_gradient(x, weights)
    traced = tf.function(value_and_gradient, autograph=False)(x, weights)
    for one, other in zip(eager, traced, strict=True):
        np.testing.assert_array_equal(one, other)
    return [t.numpy() for t in eager]


def reductions(ctx: FakeContext, ops: Any) -> None:
    import tensorflow as tf

    rng = np.random.default_rng(3)
    xs = rng.integers(1, 4, (ctx.size, 4, 3)).astype("float32")
    ws = rng.normal(size=(ctx.size, 4, 3)).astype("float32")
    x, w = tf.constant(xs[ctx.rank]), tf.constant(ws[ctx.rank])
    total = ws.sum(0)
    largest, smallest = xs == xs.max(0), xs == xs.min(0)
    others = np.prod(xs, 0) / xs[ctx.rank]
    expected = {
        "sum": (xs.sum(0), total),
        "average": (xs.mean(0), total / ctx.size),
        "max": (xs.max(0), (total * largest / largest.sum(0))[ctx.rank]),
        "min": (xs.min(0), (total * smallest / smallest.sum(0))[ctx.rank]),
        "product": (xs.prod(0), total * others),
    }
    for op, (value, slope) in expected.items():
        found, gradient = gradient_of(lambda t, op=op: ops.allreduce(t, op), x, w)
        np.testing.assert_allclose(found, value, rtol=1e-6)
        np.testing.assert_allclose(gradient, slope, rtol=1e-5, atol=1e-6)

        bounds = np.cumsum([0] + [4 // ctx.size + (rank < 4 % ctx.size) for rank in range(ctx.size)])
        mine = slice(bounds[ctx.rank], bounds[ctx.rank + 1])
        found, _ = gradient_of(lambda t, op=op: ops.reducescatter(t, op), x, w[mine])
        np.testing.assert_allclose(found, value[mine], rtol=1e-6)
    gathered = np.concatenate([ws[r, bounds[r] : bounds[r + 1]] for r in range(ctx.size)])
    _, gradient = gradient_of(lambda t: ops.reducescatter(t, "sum"), x, w[mine])
    np.testing.assert_allclose(gradient, gathered, rtol=1e-5)

    scaled = ops.allreduce(x, "sum", prescale_factor=0.5, postscale_factor=4.0, compression="bf16")
    np.testing.assert_array_equal(scaled, 2 * xs.sum(0))
    compressed = ops.allreduce(tf.constant([1 + 2.0**-12]), compression="fp16")
    assert (compressed.dtype, compressed.numpy().tolist()) == (tf.float32, [1.0])
    for run in both_ways(lambda ts: ops.grouped_allreduce(ts, "sum")):
        found = run([x, tf.constant([ctx.rank]), tf.cast(x, tf.float64)])
        assert [t.dtype for t in found] == [tf.float32, tf.int32, tf.float64]
        np.testing.assert_array_equal(found[0], xs.sum(0))
        assert found[1].numpy().tolist() == [sum(range(ctx.size))]
    with tf.GradientTape() as tape:
        tape.watch(x)
        (first, _, second) = ops.grouped_allreduce([x, tf.constant([1]), 2 * x], "sum")
        loss = tf.reduce_sum(first * w) + tf.reduce_sum(second)
    np.testing.assert_allclose(tape.gradient(loss, x), total + 2 * ctx.size, rtol=1e-5)


def sparse(ctx: FakeContext, ops: Any) -> None:
    """Check that IndexedSlices, of different length on each task, stay sparse, with the slices of all tasks."""
    import tensorflow as tf

    rows = tf.range(ctx.rank + 1)
    slices = tf.IndexedSlices(tf.fill([ctx.rank + 1, 2], float(ctx.rank + 1)), rows, tf.constant([5, 2]))
    for run in both_ways(ops.allreduce):
        mean = run(slices)
        assert isinstance(mean, tf.IndexedSlices)
        assert len(mean.indices) == sum(range(1, ctx.size + 1))
        dense = np.zeros((5, 2))
        for rank in range(ctx.size):
            dense[: rank + 1] += (rank + 1) / ctx.size
        np.testing.assert_allclose(tf.convert_to_tensor(mean), dense, rtol=1e-6)
    table = tf.Variable(tf.ones([5, 2]))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [ctx.rank])) * 3
    found = ops.grouped_allreduce([tape.gradient(loss, table), tf.ones(2)], "sum")
    assert found[0].values.shape == (ctx.size, 2)
    assert found[1].numpy().tolist() == [ctx.size] * 2


def exchanges(ctx: FakeContext, ops: Any) -> None:
    import tensorflow as tf

    rank, size = ctx.rank, ctx.size
    rng = np.random.default_rng(4)
    xs = [rng.normal(size=(r + 1, 2)).astype("float32") for r in range(size)]
    together = np.concatenate(xs)
    ws = rng.normal(size=(size, *together.shape)).astype("float32")
    found, gradient = gradient_of(ops.allgather, tf.constant(xs[rank]), tf.constant(ws[rank]))
    np.testing.assert_array_equal(found, together)
    first = sum(range(rank + 1))
    np.testing.assert_allclose(gradient, ws.sum(0)[first : first + rank + 1], rtol=1e-5)
    assert [len(t) for t in ops.grouped_allgather([tf.constant(xs[rank]), tf.range(2)])] == [len(together), 2 * size]

    root = size - 1
    found, gradient = gradient_of(lambda t: ops.broadcast(t, root), tf.fill([2], float(rank)), tf.constant([1.0, rank]))
    assert found.tolist() == [root, root]
    assert gradient.tolist() == ([size, sum(range(size))] if rank == root else [0, 0])

    # Task r sends r + 1 rows to each task. The weights differ by sender, receiver and row, so the gradient shows
    # whether each of them returns to the row that it belongs to.
    own = np.arange(size * (rank + 1), dtype="float32")[:, None] + 100 * rank
    splits = [rank + 1] * size
    rows = np.concatenate([np.arange(sender + 1) + rank * (sender + 1) + 100 * sender for sender in range(size)])
    found, gradient = gradient_of(
        lambda t: ops.alltoall(t, splits)[0], tf.constant(own), tf.constant(rows[:, None] * 10, tf.float32)
    )
    np.testing.assert_array_equal(found[:, 0], rows)
    np.testing.assert_array_equal(gradient, own * 10)
    received, counts = ops.alltoall(tf.range(size) + size * rank)
    assert received.numpy().tolist() == [size * sender + rank for sender in range(size)]
    assert counts.numpy().tolist() == [1] * size

    variables = [tf.Variable([float(rank)]), tf.Variable(rank), tf.Variable(rank == 0)]
    dtf.broadcast(variables, root_rank=root)
    assert [v.numpy().tolist() for v in variables] == [[root], root, root == 0]
    assert int(dtf.broadcast(rank, root)) == root
    assert ops.broadcast_object({"rank": rank}, root) == {"rank": root}
    assert ops.allgather_object("x" * rank) == ["x" * r for r in range(size)]


def refusals(ctx: FakeContext, ops: Any) -> None:
    import tensorflow as tf

    for call, words in [
        (lambda: ops.allreduce(1), 'of a floating-point type for op="average", got int32'),
        (
            lambda: ops.allreduce(1, "sum", prescale_factor=0.5),
            "of a floating-point type for a scale factor, got int32",
        ),
        (lambda: ops.allreduce(1.0, "mean"), "`op` must be one of average, sum, min, max, product, got 'mean'"),
        (lambda: ops.allreduce(1.0, compression="zip"), "`compression` must be one of none, fp16, bf16, got 'zip'"),
        (lambda: ops.allreduce(tf.constant(["a"]), "min"), "one of the types bool, .*, got string"),
        (lambda: ops.allreduce(True, "sum"), "for booleans, got"),
        (lambda: ops.allgather(1.0), "at least one dimension, got a scalar"),
        (lambda: ops.reducescatter(1.0), "at least one dimension, got a scalar"),
        (lambda: ops.alltoall(tf.zeros(ctx.size + 1)), f"got {ctx.size + 1} rows"),
        (lambda: ops.alltoall(tf.zeros(2), [2]), f"a number for each of {ctx.size} tasks"),
        (lambda: ops.broadcast(1.0, ctx.size), f"must be one of the ranks .*, got {ctx.size}"),
        (lambda: ops.ProcessSet([]), "at least one rank >= 0, each at most once, got \\[\\]"),
        (lambda: ops.ProcessSet([1, 1]), "each at most once, got \\[1, 1\\]"),
        (lambda: ops.allreduce(1.0, process_set=ops.ProcessSet([ctx.rank, 9])), "got .*9"),
    ]:
        with pytest.raises(InvalidInput, match=words):
            call()


def program(machines: list[str], by: str = "tcp") -> Any:
    def check(ctx: FakeContext) -> None:
        ctx.between_machines = by
        ops = enter(ctx, machines)
        reductions(ctx, ops)
        sparse(ctx, ops)
        exchanges(ctx, ops)
        if ctx.size > 1:
            refusals(ctx, ops)

    return check


@pytest.mark.parametrize("machines", [["a"], ["a", "a", "a"], ["a", "b"], ["a", "b", "a"]], ids="-".join)
def test_values_and_gradients(machines: list[str]) -> None:
    run_gang(len(machines), program(machines))


def test_values_and_gradients_by_the_ring() -> None:
    run_gang(3, program(["a", "b", "a"], "ring"))


def test_a_function_runs_collectives_in_the_order_of_the_program() -> None:
    """This includes collectives in nested functions, branches and loops, and those without data dependencies."""

    def check(ctx: FakeContext) -> None:
        import tensorflow as tf

        ops = enter(ctx, ["a", "a"])
        scale = tf.Variable(2.0)

        @tf.function(autograph=False)
        def inner(x: Any) -> Any:
            return ops.allreduce(x * scale, "sum", name="inner")

        @tf.function(autograph=False)
        def outer(x: Any) -> Any:
            results = [ops.allreduce(tf.fill([n], x), "sum")[0] for n in range(1, 6)]
            results.append(inner(x))
            results.append(ops.allreduce(-x, "min"))
            results.append(
                tf.cond(
                    x > 100,
                    lambda: ops.allreduce(x, "sum"),
                    lambda: ops.allreduce(tf.fill([7], x), "max")[0],
                )
            )

            def body(i: Any, total: Any) -> Any:
                total += ops.allreduce(x, "product")
                ops.barrier()
                return i + 1, total

            _, total = tf.while_loop(lambda i, _: i < 3, body, [0, 0.0])
            return [*results, total]

        for step in range(50):
            found = outer(tf.constant(float(ctx.rank + 1)))
            assert [float(t) for t in found] == [3.0] * 5 + [6.0, -2.0, 2.0, 6.0], step

    run_gang(2, check)


def test_a_nested_function_keeps_its_place_although_its_input_is_late() -> None:
    """The order holds although on one task the nested call's input is late, and on the other that of the next call."""

    def check(ctx: FakeContext) -> None:
        import tensorflow as tf

        ops = enter(ctx, ["a", "a"])
        scale = tf.Variable(2.0)

        def late(x: Any) -> Any:
            square = tf.fill([16, 16], x)
            for _ in range(20):
                square = tf.tanh(tf.matmul(square, square))
            return tf.minimum(x, x + square[0, 0])

        @tf.function(autograph=False)
        def inner(x: Any) -> Any:
            return ops.allreduce(x * scale, "sum")

        @tf.function(autograph=False)
        def outer(x: Any) -> Any:
            first = inner(late(x) if ctx.rank == 0 else x)
            return first, ops.allreduce(tf.fill([7], late(x) if ctx.rank == 1 else x), "max")

        for _ in range(20):
            first, second = outer(tf.constant(float(ctx.rank + 1)))
            assert (float(first), second.numpy().tolist()) == (6.0, [2.0] * 7)

    run_gang(2, check)


def test_process_sets() -> None:
    def check(ctx: FakeContext) -> None:
        import tensorflow as tf

        ops = enter(ctx, ["a"] * 3)
        outer = ops.add_process_set([0, 2])
        assert (outer.ranks, outer.size(), outer.included()) == ((0, 2), 2, ctx.rank != 1)
        if outer.included():
            assert outer.rank() == ctx.rank // 2
            assert float(ops.allreduce(float(ctx.rank), process_set=outer)) == 1.0
            assert ops.allgather(tf.constant([ctx.rank]), process_set=outer).numpy().tolist() == [0, 2]
            assert int(ops.broadcast(ctx.rank, root_rank=2, process_set=ops.ProcessSet([2, 0]))) == 2
        assert int(ops.allreduce(ctx.rank, "sum")) == 3
        alone = ops.ProcessSet([ctx.rank])
        assert int(ops.allreduce(ctx.rank, "sum", process_set=alone)) == ctx.rank

    run_gang(3, check)


def test_different_calls_are_told() -> None:
    def check(ctx: FakeContext) -> str:
        ops = enter(ctx, ["a", "a"])
        with pytest.raises(RuntimeError) as caught:
            ops.allreduce(np.zeros(2 + ctx.rank, "float32"), "sum")
        return str(caught.value)

    here, there = run_gang(2, check)
    two, three = (f"allreduce sum of float32 [{length}] on worker:{length - 2}" for length in (2, 3))
    assert here.endswith(f", got {two}, {three}")
    assert there.endswith(f", got {three}, {two}")


def test_the_collectives_of_tensorflow_come_first() -> None:
    def check(ctx: FakeContext) -> None:
        import tensorflow as tf

        tf.Variable(1.0)
        ctx.between_machines = "ring"
        with pytest.raises(Unavailable, match=r"call dtf.barrier\(\) at the beginning"):
            enter(ctx, ["a", "b"])

    run_gang(2, check)
