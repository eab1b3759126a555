"""Tests of collectives with various inputs and in various contexts, which are supported or rejected with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.errors import InvalidInput

from ..gang import FakeContext, run_gang
from .test_ops import enter


def surfaces(ctx: FakeContext) -> list[Any]:
    """Return the two modules with collectives: the package's own, and its implementation of Horovod's."""
    enter(ctx, ["a"] * ctx.size)
    import jupyter_dtf.compat.horovod as hvd

    hvd.init()
    return [dtf, hvd]


def values(ctx: FakeContext) -> None:
    import keras
    import tensorflow as tf

    size, rank = ctx.size, ctx.rank
    for surface in surfaces(ctx):
        add = {"op": "sum"}
        for value in (
            np.array([1.5, 2.0], "float32"),
            [1.5, 2.0],
            (1.5, 2.0),
            tf.constant([1.5, 2.0]),
            tf.Variable([1.5, 2.0]),
            keras.Variable([1.5, 2.0]),
        ):
            assert surface.allreduce(value, **add).numpy().tolist() == [1.5 * size, 2.0 * size]
            assert surface.allgather(value).numpy().tolist() == [1.5, 2.0] * size
            assert surface.broadcast(value, root_rank=0).numpy().tolist() == [1.5, 2.0]
            assert surface.grouped_allreduce([value, value], **add)[1].numpy().tolist() == [1.5 * size, 2.0 * size]
            assert surface.grouped_allgather([value])[0].numpy().tolist() == [1.5, 2.0] * size
            assert len(surface.reducescatter(value, **add)) in (0, 1)
            assert len(surface.grouped_reducescatter([value], **add)[0]) in (0, 1)
        for number in (3, 3.5, np.float64(3.5), np.int8(3), True):
            assert surface.allreduce(number, op="max").numpy() == number
            assert surface.broadcast(number, root_rank=size - 1).numpy() == number
        truths = tf.constant([True, rank == 0])
        assert surface.allreduce(truths, op="min").numpy().tolist() == [True, size == 1]
        assert surface.allgather(truths).dtype == tf.bool
        for shape in ([0], [0, 3], [2, 0]):
            empty = tf.zeros(shape)
            assert surface.allreduce(empty, **add).shape == shape
            assert surface.allreduce(empty).shape == shape
            assert surface.broadcast(empty, root_rank=0).shape == shape
            assert surface.allgather(empty).shape == [shape[0] * size, *shape[1:]]
            assert surface.reducescatter(empty, **add).shape[1:] == shape[1:]
        assert surface.alltoall(tf.zeros([0, 3]), splits=[0] * size)[0].shape == [0, 3]
        some = tf.ones([rank, 2])  # the first task has none
        assert surface.allgather(some).shape == [sum(range(size)), 2]
        received, counts = surface.alltoall(tf.ones([size + 1, 2]), splits=[1] * size)  # one row goes nowhere
        assert (received.shape, counts.numpy().tolist()) == ([size, 2], [1] * size)
        assert surface.grouped_allreduce([]) == surface.grouped_allgather([]) == surface.grouped_reducescatter([]) == []
        assert surface.broadcast_object({"rank": rank}) == {"rank": 0}
        assert surface.allgather_object(rank) == list(range(size))
        first = surface.broadcast_object(lambda: rank)  # cannot be imported
        assert first() == 0
        slices = tf.IndexedSlices(np.ones((1, 2), "float32"), np.array([rank]), np.array([size, 2]))
        together = surface.allreduce(slices, **add)
        assert tf.convert_to_tensor(together).numpy().tolist() == [[1.0, 1.0]] * size


def refused(ctx: FakeContext) -> None:
    import tensorflow as tf

    calls: list[Callable[[Any, Any], Any]] = [
        lambda to, value: to.allreduce(value, op="sum"),
        lambda to, value: to.allgather(value),
        lambda to, value: to.broadcast(value, root_rank=0),
        lambda to, value: to.alltoall(value),
        lambda to, value: to.reducescatter(value, op="sum"),
        lambda to, value: to.grouped_allgather([value]),
    ]
    what = [
        (tf.ragged.constant([[1], [2, 3]]), r"must be dense.* got a RaggedTensor: send value.to_tensor\(\)"),
        (tf.sparse.from_dense([[1.0]]), "must be dense.* got a SparseTensor"),
        (tf.constant([1 + 2j]), "must be of one of the types bool, .*float64, got complex128"),
        (tf.constant(["a"]), "got string"),
        (["a", "b"], "got string"),
    ]
    for surface in surfaces(ctx):
        for call in calls:
            for value, words in what:
                for way in (call, tf.function(call, autograph=False)):
                    with pytest.raises(InvalidInput, match=words):
                        way(surface, value)
            with pytest.raises(InvalidInput, match="XLA cannot compile collectives.* got jit_compile=True"):
                tf.function(lambda call=call, to=surface: call(to, tf.ones(2)), jit_compile=True)()
        with pytest.raises(InvalidInput, match="no place in the order of calls.* not in Dataset_map"):
            tf.data.Dataset.range(3).map(surface.allreduce)
        with pytest.raises(
            InvalidInput, match="that add up to at most the number of rows, got .* for 2 rows on worker:0"
        ):
            surface.alltoall(tf.ones(2), splits=[3, 0, 0][: ctx.size])


def places(ctx: FakeContext) -> None:
    """Check collectives and their gradients in branches, in loops, on slices, and in Python called by TensorFlow."""
    import tensorflow as tf

    size, rank = ctx.size, ctx.rank
    for surface in surfaces(ctx):

        def add(x: Any, surface: Any = surface) -> Any:
            return surface.allreduce(x, op="sum")

        def branch(x: Any) -> Any:
            return tf.cond(x[0] > 100.0, lambda: x, lambda: add(x))

        def loop(x: Any) -> Any:
            return tf.while_loop(lambda i, _: i < 2, lambda i, t: (i + 1, add(t)), [0, x])[1]

        def python(x: Any) -> Any:
            return tf.ensure_shape(tf.py_function(add, [x], tf.float32), x.shape)

        def mapped(x: Any) -> Any:
            return tf.stack([add(part) for part in tf.unstack(x)])

        for place, times in ((add, 1), (branch, 1), (loop, 2), (python, 1), (mapped, 1)):
            for function in (place, tf.function(place, autograph=False)):
                x = tf.Variable([float(rank), 1.0])
                with tf.GradientTape() as tape:
                    found = function(x.read_value())
                    loss = tf.reduce_sum(found * [1.0, rank + 1.0])
                assert found.numpy().tolist() == [sum(range(size)) * size ** (times - 1), size**times]
                slope = tape.gradient(loss, x)
                expected = [1.0 * size**times, sum(range(1, size + 1)) * size ** (times - 1)]
                assert slope.numpy().tolist() == expected, place


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("check", [values, refused, places])
def test_inputs(check: Callable[[FakeContext], None], size: int) -> None:
    run_gang(size, check)
