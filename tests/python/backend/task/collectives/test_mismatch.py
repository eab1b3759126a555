"""Tests of mismatched calls: with every transport, all tasks raise an error that names the calls, and none hangs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil
import pytest

from ....patience import until
from ..gang import FakeContext, run_gang
from .test_ops import enter

RULE = "All tasks must make the same collective calls in the same order, got "


def said_by(call: Callable[[], Any]) -> str:
    """Return the message of the error that the call raises."""
    import tensorflow as tf

    with pytest.raises((RuntimeError, tf.errors.FailedPreconditionError, tf.errors.UnknownError)) as caught:
        call()
    return str(caught.value)


def different_calls(ops: Any, rank: int) -> dict[str, tuple[Callable[[], Any], str, str]]:
    """Return calls that the last task makes differently from the others, with parts of the descriptions of both."""
    import tensorflow as tf

    def either(a: Any, b: Any) -> Any:
        return b if rank else a

    x = tf.zeros([4])
    pair = [tf.zeros(2), tf.zeros(2)]
    one = "of float32 [4]"
    return {
        "type": (lambda: ops.broadcast(either(np.zeros(4, "int32"), x), 0), "int32 [4]", "float32 [4]"),
        "type of a sum": (lambda: ops.allreduce(either(x, tf.zeros(4, tf.int32)), "sum"), one, "of int32 [4]"),
        "shape": (lambda: ops.allreduce(either(x, tf.zeros([2, 2]))), "float32 [4]", "float32 [2, 2]"),
        "op": (lambda: ops.allreduce(x, either("sum", "average")), f"sum {one}", f"average {one}"),
        "function": (lambda: either(ops.allreduce, ops.reducescatter)(x), f"allreduce average {one}", "reducescatter"),
        "root": (lambda: ops.broadcast(x, either(0, 1)), "broadcast from 0", "broadcast from 1"),
        "compression": (
            lambda: ops.allreduce(x, compression=either("none", "fp16")),
            f"allreduce average {one}",
            "(compression=fp16) of float16 [4]",
        ),
        "factor": (
            lambda: ops.allreduce(x, prescale_factor=either(1.0, 0.5)),
            f"allreduce average {one}",
            "(prescale_factor=0.5, postscale_factor=1.0)",
        ),
        "name": (lambda: ops.allreduce(x, name=either("loss", "accuracy")), "'loss' of", "'accuracy' of"),
        "number": (
            lambda: ops.grouped_allreduce(either(pair, pair[:1])),
            "2 tensors: float32 [2], float32 [2]",
            "average of float32 [2]",
        ),
        "none": (lambda: ops.grouped_allreduce(either(pair, [])), "2 tensors", "no tensors"),
        "columns": (lambda: ops.allgather(either(x[None], x[:, None])), "float32 [*, 4]", "float32 [*, 1]"),
        "type of rows": (lambda: ops.allgather(either(x, tf.cast(x, tf.int32))), "float32 [*]", "int32 [*]"),
        "many": (
            lambda: ops.grouped_allreduce([x] * 200 + [either(x, x[1:])]),
            "201 tensors: 201 x float32 [4]",
            "201 tensors: 200 x float32 [4], float32 [3]",
        ),
        "alltoall": (
            lambda: ops.alltoall(tf.zeros([12, 2], either(tf.float32, tf.float64))),
            "alltoall of float32 [*, 2]",
            "alltoall of float64 [*, 2]",
        ),
    }


@pytest.mark.parametrize("machines", ["aa", "aaa", "ab", "aab", "abca"])
def test_in_memory_and_by_tcp(machines: str) -> None:
    """Mismatched calls fail eagerly and in a function, repeatedly, and a matching call succeeds after each error."""

    def check(ctx: FakeContext) -> None:
        import tensorflow as tf

        ops = enter(ctx, list(machines))
        last = ctx.rank == ctx.size - 1
        for what, (call, ours, theirs) in different_calls(ops, int(last)).items():
            for way in (call, tf.function(call, autograph=False)):
                said = said_by(way)
                assert RULE in said, what
                assert ours in said, (what, said)
                assert theirs in said, (what, said)
                if len(set(machines)) == 1:  # between machines, only the calls of two of them are compared
                    assert all(f"worker:{rank}" in said for rank in range(ctx.size)), (what, said)
            assert int(ops.allreduce(ctx.rank, "sum")) == sum(range(ctx.size))

    run_gang(len(machines), check)


@pytest.mark.parametrize("machines", ["aa", "ab"])
def test_of_objects(machines: str) -> None:
    def check(ctx: FakeContext) -> None:
        ops = enter(ctx, list(machines))
        rank = ctx.rank
        said = said_by(lambda: ops.allgather_object(rank) if rank else ops.broadcast_object(rank))
        assert RULE in said
        assert "broadcast_object (root_rank=0) on worker:0" in said
        assert "allgather_object on worker:1" in said
        said = said_by(lambda: ops.broadcast_object(rank, rank))
        assert "broadcast_object (root_rank=0) on worker:0" in said
        assert "broadcast_object (root_rank=1) on worker:1" in said
        assert ops.broadcast_object(rank, 1) == 1

    run_gang(len(machines), check)


@pytest.mark.parametrize("machines", ["ab", "aab", "aba"])
@pytest.mark.parametrize("what", ["type", "shape", "op"])
def test_by_the_ring(what: str, machines: str) -> None:
    """All tasks get the error. Each mismatch has its own processes: TensorFlow's collectives stay broken afterwards."""

    def check(ctx: FakeContext) -> str:
        import tensorflow as tf

        ctx.between_machines = "ring"
        ops = enter(ctx, list(machines))
        call, ours, theirs = different_calls(ops, int(ctx.rank == ctx.size - 1))[what]
        assert float(ops.allreduce(1.0, "sum")) == ctx.size
        said = said_by(tf.function(call, autograph=False) if what == "shape" else call)
        assert ours in said, said
        assert theirs in said, said
        return said

    for said in run_gang(len(machines), check):
        assert RULE in said


@pytest.mark.parametrize(("machines", "by"), [("aaa", "tcp"), ("abc", "tcp"), ("abb", "tcp"), ("abc", "ring")])
def test_different_process_sets(machines: str, by: str) -> None:
    """All tasks get an error if two of them wait for each other in different sets, and the third waits for both."""

    def check(ctx: FakeContext) -> str:
        ctx.between_machines = by
        ops = enter(ctx, list(machines))
        pair = ops.add_process_set([0, 1])
        said = said_by(lambda: ops.allreduce(1.0, "max", process_set=pair if ctx.rank == 0 else None))
        assert "max of float32 [] among the ranks [0, 1] on worker:0" in said
        return said

    for said in run_gang(3, check):
        assert "among the ranks [0, 1, 2] on worker:1" in said


def test_a_task_that_comes_after_the_others_have_ended_gets_the_same_error() -> None:
    def check(ctx: FakeContext) -> str:
        ops = enter(ctx, ["a"] * 3)
        pair = ops.add_process_set([0, 1])
        others = ops.allgather_object(os.getpid())[:2]
        if ctx.rank == 2:
            until(lambda: not any(map(psutil.pid_exists, others)), "the others' end")
        return said_by(lambda: ops.allreduce(1.0, "max", process_set=pair if ctx.rank == 0 else None))

    for said in run_gang(3, check):
        assert "max of float32 [] among the ranks [0, 1] on worker:0" in said
        assert "among the ranks [0, 1, 2] on worker:1" in said


@pytest.mark.parametrize("by", ["tcp", "ring"])
def test_a_length_that_is_known_late(by: str) -> None:
    """In a function that was traced once for any length, the actual lengths are compared and sent."""

    def check(ctx: FakeContext) -> str:
        import tensorflow as tf

        ctx.between_machines = by
        ops = enter(ctx, ["a", "b"])
        spec = tf.TensorSpec([None, 2], tf.float32)
        total = tf.function(lambda t: ops.allreduce(t, "sum"), autograph=False, input_signature=[spec])
        for length in (3, 1, 2):
            assert total(tf.ones([length, 2])).numpy().tolist() == [[2, 2]] * length
        return said_by(lambda: total(tf.ones([3 + ctx.rank, 2])))

    for said in run_gang(2, check):
        assert "float32 [3, 2] on worker:0" in said
        assert "float32 [4, 2] on worker:1" in said
