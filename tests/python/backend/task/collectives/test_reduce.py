"""The contract of a reducer, for every transport."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.errors import Unavailable

from ..gang import FakeContext, run_gang

pytestmark = pytest.mark.timeout(120)

LENGTHS = (1, 3, 1_000, 16_384, 16_385, 300_001)


def contract(transport: str) -> Callable[[FakeContext], Any]:
    def program(ctx: FakeContext) -> Any:
        import tensorflow as tf

        from jupyter_dtf.backend.task.collectives import make_reducer

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
        reducer.close()
        return sums

    return program


@pytest.mark.parametrize(("transport", "size"), [("shm", 2), ("shm", 3), ("ring", 2), ("auto", 1)])
def test_sums_are_right_and_the_same_bits_everywhere(transport: str, size: int) -> None:
    results = run_gang(size, contract(transport))
    for other in results[1:]:
        for ours, theirs in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("how", ["closed", "failed", "died"])
def test_waiting_for_a_task_that_is_gone_is_an_error(how: str) -> None:
    def program(ctx: FakeContext) -> Any:
        from jupyter_dtf.backend.task.collectives.shared_memory import SharedMemoryReducer

        reducer = SharedMemoryReducer(ctx.shared_dir, ctx.rank, ctx.size)
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


def test_shared_memory_needs_one_machine() -> None:
    def program(ctx: FakeContext) -> Any:
        from jupyter_dtf.backend.task.collectives import make_reducer

        ctx.machines = ["a", "b"]
        ctx.size = 2
        with pytest.raises(Unavailable, match="Received tasks on a, b"):
            make_reducer("shm", ctx)

    run_gang(1, program)
