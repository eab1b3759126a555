"""Tests of the contract of reducers, with every transport."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.errors import InvalidInput, Unavailable

from ..gang import FakeContext, run_gang

LENGTHS = (1, 3, 1_000, 16_384, 16_385, 300_001)


def contract_of_types(reducer: Any) -> None:
    import tensorflow as tf

    own = np.array([[1, 2, 1], [2, 1, 2]])
    everyones = np.stack([own + rank for rank in range(reducer.size)])
    expected = {"sum": everyones.sum(0), "min": everyones.min(0), "max": everyones.max(0), "product": everyones.prod(0)}
    for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32, tf.int64, tf.uint8, tf.uint32):
        for op, values in expected.items():
            mine = tf.cast(tf.constant(own + reducer.rank), dtype)
            eager = reducer.reduce_tensors([mine], op, "eager")[0]
            traced = tf.function(lambda t, op=op: reducer.reduce_tensors([t], op, "traced")[0], autograph=False)(mine)
            for result in (eager, traced):
                assert (result.dtype, result.shape) == (dtype, (2, 3))
                np.testing.assert_array_equal(tf.cast(result, tf.int64), values)
            np.testing.assert_array_equal(reducer.reduce(mine.numpy(), op).astype("int64"), values)
    truths = tf.constant([True, reducer.rank == 0, False])
    assert reducer.reduce_tensors([truths], "min", "all")[0].numpy().tolist() == [True, reducer.size == 1, False]
    assert reducer.reduce_tensors([truths], "max", "any")[0].numpy().tolist() == [True, True, False]
    with pytest.raises(InvalidInput, match="for booleans, got .sum."):
        reducer.reduce_tensors([truths], "sum", "sum")
    with pytest.raises(InvalidInput, match="`op` must be one of .*, got 'mean'"):
        reducer.reduce(np.ones(3), "mean")
    mixed = reducer.reduce_tensors(
        [tf.fill([2], 1.5), tf.constant(3), tf.fill([300, 100], 2.0), tf.zeros([0, 4]), tf.fill([2], tf.int32.max)],
        "max",
        "mixed",
    )
    assert [t.numpy().max(initial=0) for t in mixed] == [1.5, 3, 2, 0, 2**31 - 1]
    assert [t.shape for t in mixed] == [(2,), (), (300, 100), (0, 4), (2,)]


def contract_of_shapes(reducer: Any) -> None:
    """Check data whose length differs between tasks, both short and longer than a round of the shared memory holds."""
    import tensorflow as tf

    for scale in (1, 300_000):
        for dtype in ("float32", "int64", "float16", "bool", "uint8"):
            own = (np.arange(scale * reducer.rank * 2).reshape(-1, 2) * (-1) ** reducer.rank).astype(dtype)
            everyones = [
                (np.arange(scale * rank * 2).reshape(-1, 2) * (-1) ** rank).astype(dtype)
                for rank in range(reducer.size)
            ]
            for mine, theirs in zip(reducer.gather(own), everyones, strict=True):
                assert mine.dtype == theirs.dtype
                np.testing.assert_array_equal(mine, theirs)
            traced = tf.function(lambda t: reducer.gather_tensor(t, "gather"), autograph=False)(tf.constant(own))
            np.testing.assert_array_equal(traced, np.concatenate(everyones))
    assert np.signbit(reducer.gather(np.array([-0.0]))[0][0])

    def exchanged(t: Any) -> Any:
        splits = tf.range(reducer.size, dtype=tf.int64) + reducer.rank  # the number of rows for each rank
        return reducer.exchange_rows(t, splits, "exchange")

    length = sum(to + reducer.rank for to in range(reducer.size))
    rows = np.repeat(np.arange(reducer.size) + 10 * reducer.rank, np.arange(reducer.size) + reducer.rank)
    assert len(rows) == length
    for run in (exchanged, tf.function(exchanged, autograph=False)):
        received, splits = run(tf.constant(np.stack([rows, -rows], 1)))
        assert splits.numpy().tolist() == [reducer.rank + rank for rank in range(reducer.size)]
        expected = np.repeat(reducer.rank + 10 * np.arange(reducer.size), reducer.rank + np.arange(reducer.size))
        np.testing.assert_array_equal(received, np.stack([expected, -expected], 1))

    last = reducer.size - 1
    sent = [
        tf.fill([3, 2], float(reducer.rank)),
        tf.constant(reducer.rank == last),
        tf.fill([2], tf.cast(reducer.rank, tf.bfloat16)),
    ]
    received = tf.function(lambda ts: reducer.broadcast_tensors(ts, last, "broadcast"), autograph=False)(sent)
    assert [t.dtype for t in received] == [tf.float32, tf.bool, tf.bfloat16]
    assert [tf.cast(t, tf.int32).numpy().tolist() for t in received] == [[[last] * 2] * 3, 1, [last] * 2]


def contract(transport: str, machines: str) -> Callable[[FakeContext], Any]:
    def program(ctx: FakeContext) -> Any:
        import tensorflow as tf

        from jupyter_dtf.backend.task.collectives import make_reducer

        ctx.machines = list(machines)
        reducer = make_reducer(transport, ctx)
        rng = np.random.default_rng(ctx.rank)
        sums = []
        for dtype in ("float32", "float64", "int64"):
            for length in LENGTHS:
                mine = rng.normal(size=length).astype(dtype)
                everyones = reducer.all_gather(mine.tolist()) if length < 1_001 else None
                total = reducer.sum(mine)
                assert (total.dtype, total.shape) == (mine.dtype, mine.shape)
                if everyones is not None:
                    np.testing.assert_allclose(total, np.sum(everyones, axis=0), rtol=1e-4, atol=1e-5)
                sums.append(total)
        in_graph = tf.function(lambda t: reducer.sum_tensor(t, "a") + reducer.sum_tensor(2 * t, "b"))
        for step in range(200):
            total = in_graph(tf.constant([float(ctx.rank + step), 1.0]))
            assert total.numpy().tolist() == [3.0 * sum(r + step for r in range(ctx.size)), 3.0 * ctx.size]
        arrays = [
            np.full((2, 3), ctx.rank + 1.5),
            np.array(ctx.rank == 0),
            np.array([], "int32"),
            np.full(1, ctx.rank, "float16"),
        ]
        received = reducer.broadcast(arrays)
        assert [a.tolist() for a in received] == [[[1.5] * 3] * 2, True, [], [0.0]]
        assert [a.dtype for a in received] == [a.dtype for a in arrays]
        values = reducer.all_gather({"rank": ctx.rank, "long": "x" * ctx.rank * 1000})
        assert [value["rank"] for value in values] == list(range(ctx.size))
        contract_of_types(reducer)
        contract_of_shapes(reducer)
        reducer.close()
        return sums

    return program


@pytest.mark.parametrize(
    ("transport", "machines"),
    [
        *[
            ("shm", "aa"),
            ("shm", "aaa"),
            ("ring", "aa"),
            ("ring", "aba"),
            ("tcp", "aa"),
            ("tcp", "aaa"),
            ("tcp", "abcd"),
        ],
        *[("auto", "abba"), ("auto", "a")],
    ],
)
def test_sums_are_right_and_the_same_bits_everywhere(transport: str, machines: str) -> None:
    results = run_gang(len(machines), contract(transport, machines))
    for other in results[1:]:
        for ours, theirs in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("how", ["closed", "failed", "died"])
def test_waiting_for_a_task_that_is_gone_is_an_error(how: str) -> None:
    def program(ctx: FakeContext) -> Any:
        from jupyter_dtf.backend.task.collectives.shared_memory import SharedMemoryReducer

        reducer = SharedMemoryReducer(ctx.shared_dir / "reduce", ctx.rank, ctx.tasks)
        reducer.sum(np.ones(3))
        if ctx.rank == 1:
            if how == "died":
                os._exit(1)
            reducer.close(failed=how == "failed")
            return ""
        with pytest.raises(RuntimeError) as caught:
            reducer.sum(np.ones(100_000))
        return str(caught.value)

    words = {"closed": "has ended", "failed": "has failed", "died": "has died"}
    assert words[how] in run_gang(2, program, may_die=True)[0]


def test_tasks_begin_anew_after_a_failure() -> None:
    """Waiting tasks get an error, and functions traced earlier work again after all tasks have called ``renew``."""

    def program(ctx: FakeContext) -> Any:
        import tensorflow as tf

        from jupyter_dtf.backend.task.collectives.shared_memory import SharedMemoryReducer

        reducer = SharedMemoryReducer(ctx.shared_dir / "reduce", ctx.rank, ctx.tasks)
        traced = tf.function(lambda t: reducer.sum_tensor(t, "a"), autograph=False)
        for _ in range(3):
            assert traced(tf.ones(3)).numpy().tolist() == [2.0] * 3
            assert not reducer.interrupted
            if ctx.rank == 0:
                with pytest.raises(tf.errors.OpError, match="The task worker:1 has failed"):
                    traced(tf.ones(3))
                assert reducer.interrupted
            reducer.renew()
        assert not list(ctx.shared_dir.glob("reduce*")) or ctx.rank == 1  # rank 0 removes the names

    run_gang(2, program)


def test_shared_memory_needs_one_machine() -> None:
    def program(ctx: FakeContext) -> Any:
        from jupyter_dtf.backend.task.collectives import make_reducer

        ctx.machines = ["a", "b"]
        ctx.size = 2
        with pytest.raises(Unavailable, match="got tasks on a, b"):
            make_reducer("shm", ctx)

    run_gang(1, program)
