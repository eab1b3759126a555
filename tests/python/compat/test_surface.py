"""Tests of the arguments and results of Horovod's functions, mostly on three tasks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ..backend.task.gang import FakeContext, run_gang
from .tasks import begin, dense, numbers, shares


def _places(ctx: FakeContext) -> list[Any]:
    from jupyter_dtf.backend.task.context import set_current

    hvd = begin(ctx)
    set_current(dataclasses.replace(ctx, machines=["a", "b", "a"]))  # type: ignore[arg-type]
    return [
        [hvd.rank(), hvd.local_rank(), hvd.cross_rank()],
        [hvd.size(), hvd.local_size(), hvd.cross_size()],
        hvd.is_homogeneous(),
        [int(op()) for op in (hvd.rank_op, hvd.size_op, hvd.local_rank_op, hvd.local_size_op)],
        [hvd.mpi_built(), hvd.mpi_enabled(), hvd.gloo_built(), hvd.nccl_built(), hvd.mpi_threads_supported()],
    ]


def test_places() -> None:
    found = run_gang(3, _places)
    assert [task[0] for task in found] == [[0, 0, 0], [1, 0, 1], [2, 1, 0]]
    assert [task[1] for task in found] == [[3, 2, 2], [3, 1, 2], [3, 2, 1]]
    assert [task[3] for task in found] == [[0, 3, 0, 2], [1, 3, 0, 1], [2, 3, 1, 2]]
    for task in found:
        assert task[2] is False
        assert task[4] == [False, False, False, False, False]


def _collectives(ctx: FakeContext) -> dict[str, Any]:
    import keras
    import tensorflow as tf

    import jupyter_dtf as dtf
    import jupyter_dtf.compat.horovod.tensorflow.keras as of_keras

    hvd = begin(ctx)
    mine = float(ctx.rank + 1)
    pair = hvd.add_process_set([0, 2])
    x = tf.constant([mine, 10 * mine])
    variable, seed = tf.Variable(mine), keras.random.SeedGenerator(ctx.rank).state
    hvd.broadcast_variables([variable, seed], root_rank=1)

    @tf.function
    def in_a_function(x: Any) -> Any:
        return hvd.allreduce(x, op=hvd.Sum), hvd.broadcast(x, 2)

    rows = tf.fill([ctx.rank + 1, 2], mine)
    slices = tf.IndexedSlices(tf.fill([1, 2], mine), tf.constant([ctx.rank]), tf.constant([3, 2]))
    gathered = hvd.allreduce(slices)
    return {
        "average": hvd.allreduce(x),
        "average=False": hvd.allreduce(x, average=False),
        "min": hvd.allreduce(x, op=hvd.Min),
        "fp16": hvd.allreduce(x, compression=hvd.Compression.fp16, prescale_factor=2.0, postscale_factor=0.5),
        "of a list": hvd.allreduce([mine], op=hvd.Product),
        "sparse": tf.convert_to_tensor(gathered),
        "is sparse": isinstance(gathered, tf.IndexedSlices),
        "grouped": hvd.grouped_allreduce([x, rows[:1]], op=hvd.Sum),
        "pair": hvd.allreduce(x, op=hvd.Sum, process_set=pair) if ctx.rank != 1 else x,
        "everyone": hvd.allreduce(x, op=hvd.Sum, process_set=hvd.global_process_set),
        "allgather": hvd.allgather(rows, name="rows"),
        "grouped_allgather": hvd.grouped_allgather([rows, x]),
        "broadcast": hvd.broadcast(x, root_rank=1),
        "variable": variable.numpy(),
        "seed": seed.numpy().tolist(),
        "in a function": in_a_function(x),
        "reducescatter": hvd.reducescatter(tf.fill([4], mine), op=hvd.Sum),
        "alltoall": hvd.alltoall(tf.fill([3], mine)),
        "alltoall, splits": hvd.alltoall(tf.fill([6], mine), splits=[1, 2, 3]),
        "object": hvd.broadcast_object({"rank": ctx.rank}, root_rank=2),
        "object_fn": hvd.broadcast_object_fn(root_rank=1)(ctx.rank),
        "objects": hvd.allgather_object("x" * ctx.rank),
        "keras": of_keras.allreduce([mine], "name", op=hvd.Sum),
        "dtf": dtf.DistributedGradientTape is hvd.DistributedGradientTape,
        "sizes": [pair.size(), hvd.global_process_set.size(), pair.included()],
    }


def test_collectives() -> None:
    tasks = run_gang(3, lambda ctx: _as_lists(_collectives(ctx)))
    everything = [[1, 1]] + 2 * [[2, 2]] + 3 * [[3, 3]]
    for rank, found in enumerate(tasks):
        mine = rank + 1
        assert found["average"] == [2, 20]
        assert found["average=False"] == found["everyone"] == [6, 60]
        assert found["min"] == [1, 10]
        assert found["fp16"] == [2, 20]
        assert found["of a list"] == [6]
        assert found["sparse"] == [[pytest.approx((r + 1) / 3)] * 2 for r in range(3)]
        assert found["is sparse"]
        assert found["grouped"] == [[6, 60], [[6, 6]]]
        assert found["pair"] == ([4, 40] if rank != 1 else [2, 20])
        assert found["allgather"] == everything
        assert found["grouped_allgather"] == [everything, [1, 10, 2, 20, 3, 30]]
        assert found["broadcast"] == [2, 20]
        assert found["variable"] == 2
        assert found["seed"] == [rank, 0]  # each task keeps its own
        assert found["in a function"] == [[6, 60], [3, 30]]
        assert found["reducescatter"] == ([6, 6] if rank == 0 else [6])
        assert found["alltoall"] == [1, 2, 3]
        assert found["alltoall, splits"] == [[1] * mine + [2] * mine + [3] * mine, [mine] * 3]
        assert found["object"] == {"rank": 2}
        assert found["object_fn"] == 1
        assert found["objects"] == ["", "x", "xx"]
        assert found["keras"] == [6]
        assert found["dtf"]
        assert found["sizes"] == [2, 3, rank != 1]


def _as_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_lists(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_lists(item) for item in value]
    return value.numpy().tolist() if hasattr(value, "numpy") else value


def _normalized(ctx: FakeContext) -> list[Any]:
    import keras
    import tensorflow as tf

    hvd = begin(ctx)
    keras.utils.set_random_seed(7)
    normalization = hvd.SyncBatchNormalization if ctx.size > 1 else keras.layers.BatchNormalization
    model = keras.Sequential([*dense().layers[:-1], normalization(), keras.layers.Dense(3, activation="softmax")])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), "sparse_categorical_crossentropy")
    x, y = numbers()
    for batch in zip(shares(x, ctx.rank, ctx.size), shares(y, ctx.rank, ctx.size), strict=True):
        model.train_on_batch(*map(tf.constant, batch))
    return [variable.numpy() for variable in model.variables]


def test_batch_normalization_over_the_global_batch() -> None:
    (one,) = run_gang(1, _normalized)
    for expected, found, other in zip(one, *run_gang(2, _normalized), strict=True):
        assert np.abs(found - other).max() == 0
        assert found == pytest.approx(expected, abs=2e-6)


def _saved(ctx: FakeContext) -> list[Any]:
    import keras

    hvd = begin(ctx)
    model = dense()
    model.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), "sparse_categorical_crossentropy")
    x, y = numbers(32)
    mine = slice(ctx.rank * 16, (ctx.rank + 1) * 16)
    model.fit(x[mine], y[mine], batch_size=16, verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    path = ctx.run_dir / f"{ctx.rank}.keras"
    model.save(path)
    again = hvd.load_model(path)
    plain = keras.models.load_model(path)
    equal = [np.array_equal(a, b) for a, b in zip(model.optimizer.variables, again.optimizer.variables, strict=True)]
    again.fit(x[mine], y[mine], batch_size=16, verbose=0)
    plain.fit(x[mine], y[mine], batch_size=16, verbose=0)
    return [all(equal), type(plain.optimizer) is keras.optimizers.Adam, again.get_weights(), plain.get_weights()]


def test_a_saved_model_loads_with_and_without_us() -> None:
    first, second = run_gang(2, _saved)
    assert first[:2] == second[:2] == [True, True]
    assert all(np.array_equal(a, b) for a, b in zip(first[2], second[2], strict=True))  # trained together
    assert not np.array_equal(first[3][0], second[3][0])  # trained separately


def _refusals(ctx: FakeContext) -> list[str]:
    from jupyter_dtf.errors import InvalidInput, Unavailable

    hvd = begin(ctx)
    calls: list[Callable[[], Any]] = [
        lambda: hvd.init(comm=[0]),
        lambda: hvd.allreduce(1.0, average=True, op=hvd.Sum),
        lambda: hvd.allreduce(1.0, op="mean"),
        lambda: hvd.run(print, np=2),
        lambda: hvd.start_timeline("timeline.json"),
        hvd.stop_timeline,
        lambda: hvd.elastic.TensorFlowState([], session=object()),
        lambda: hvd.callbacks.LearningRateWarmupCallback(None),
    ]
    said = []
    for call in calls:
        with pytest.raises((InvalidInput, Unavailable)) as error:
            call()
        said.append(str(error.value))
    return said


def test_what_is_refused() -> None:
    (said,) = run_gang(1, _refusals)
    rules = ["MPI", "must be None if average is given", "hvd.Product"]
    rules += ["jupyter dtf run -n 2", "profiler", "profiler", "eager", "`initial_lr` must be a number"]
    for rule, text in zip(rules, said, strict=True):
        assert rule in text
