"""Sharded checkpoints: each task writes its own part, and reading them gives the same as one written by one task."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import resource
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.schema.checkpoint import Checkpoint
from jupyter_dtf.schema.placement import Placement
from jupyter_dtf.schema.strategy import ParameterServer, Pipeline, Strategy

from ..gang import FakeContext, run_gang
from .cases import digits

STEPS = 5
"""The number of steps of the only epoch."""
UNITS = 4000


def model() -> Any:
    import keras

    keras.utils.set_random_seed(3)
    layers = [
        keras.Input((6,)),
        keras.layers.Dense(UNITS, activation="relu", name="first"),
        keras.layers.BatchNormalization(name="normal"),
        keras.layers.Dense(10, name="second"),
    ]
    made = keras.Sequential(layers, name="made")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile(keras.optimizers.Adam(0.01, name="adam"), loss)
    return made


@dataclasses.dataclass
class Found:
    """The checkpoints of a training, with data files and arrays (by key) for each step, and the final weights."""

    shards: dict[int, list[str]]
    arrays: dict[int, dict[str, Any]]
    weights: list[Any]


def train(ctx: FakeContext, name: str, strategy: Strategy, **arguments: Any) -> Any:
    """Do what the client and then this task does. Return the trained model on the chief, None on the other tasks."""
    from jupyter_dtf.client.fit import prepare

    random.seed(5)
    fresh: dict[str, Any] = {field: [] for field in ("points", "notes", "epochs", "progressed", "saved", "removed")}
    here = dataclasses.replace(ctx, shared_dir=ctx.shared_dir / name, run_dir=ctx.run_dir / name, **fresh)
    here.shared_dir.mkdir(exist_ok=True)
    x, y = digits(70)
    job = prepare(model, x, y, batch_size=16, epochs=1, strategy=strategy, **arguments)
    function, positional, _ = job.program
    result = function(*positional, here)
    if result is None:
        return None
    job.finish(result)
    return job.model


def trained(ctx: FakeContext, name: str, strategy: Strategy, directory: Path | None = None) -> Found | None:
    """Train with a checkpoint every other step. Return its checkpoints on the chief, None on the other tasks."""
    from jupyter_dtf.backend.task.checkpoint import files

    policy = Checkpoint(every_steps=2, keep=20, directory=None if directory is None else str(directory))
    made = train(ctx, name, strategy, checkpoint=policy)
    if made is None:
        return None
    place = ctx.run_dir / name / "checkpoints" if directory is None else directory / ctx.run_id
    found = Found({}, {}, made.get_weights())
    for info in files.known(place):
        stored = files.Stored(Path(info.path))
        found.shards[info.step] = sorted(name for name in stored.manifest.files if ".data-" in name)
        found.arrays[info.step] = stored.arrays()
    return found


def restored(prefix: Path, key: str, like: Any) -> Any:
    """Return a variable's value, restored by its name with ``tf.train.Checkpoint``."""
    import tensorflow as tf

    variable = tf.Variable(np.zeros_like(like), name=key)
    tf.train.Checkpoint(variable=variable).restore(str(prefix))
    return variable.numpy()


def sharded_and_gathered(strategy: Strategy) -> Any:
    """Return a program that trains twice: in a directory that all tasks see, and in one that only the chief sees."""

    def program(ctx: FakeContext) -> Any:
        sharded = trained(ctx, "sharded", strategy)
        own = ctx.shared_dir / f"of {ctx.rank}"
        own.mkdir()
        os.chdir(own)
        gathered = trained(ctx, "gathered", strategy, Path("/proc/self/cwd"))  # a different directory in each process
        if sharded is None:
            return None
        key, value = next(iter(sharded.arrays[STEPS].items()))
        return sharded, gathered, restored(ctx.run_dir / "sharded/checkpoints/5/variables", key, value), value

    return program


PLACED = {
    layer: f"/job:worker/task:{task}/device:CPU:0"
    for task, layers in enumerate((("first",), ("normal", "second")))
    for layer in layers
}
SPLIT = Placement(
    devices={layer: device for layer, device in PLACED.items() if layer != "first"},
    splits={"first": [f"/job:worker/task:{task}/device:CPU:0" for task in (0, 1)]},
)


@pytest.mark.parametrize(
    ("strategy", "size", "servers", "shards"),
    [
        # The chief writes the learning rate and the moving statistics.
        pytest.param(ParameterServer(sync=True, split_bytes=64 << 10), 3, 2, 3, id="in step"),
        pytest.param(ParameterServer(split_bytes=64 << 10), 3, 2, 3, id="apart"),
        pytest.param(Pipeline(PLACED, microbatches=2), 2, 0, 2, id="pipeline"),
        pytest.param(Pipeline(SPLIT, microbatches=2), 2, 0, 2, id="split layer"),
    ],
)
def test_each_task_writes_what_it_holds(strategy: Strategy, size: int, servers: int, shards: int) -> None:
    sharded, gathered, restored, value = run_gang(size, sharded_and_gathered(strategy), servers=servers)[0]
    assert list(sharded.shards) == list(gathered.shards) == [2, 4, STEPS]
    for step, names in sharded.shards.items():
        assert names == [f"variables.data-{number:05d}-of-{shards:05d}" for number in range(shards)]
        assert gathered.shards[step] == ["variables.data-00000-of-00001"]
        assert list(sharded.arrays[step]) == list(gathered.arrays[step])
        for key, array in gathered.arrays[step].items():
            np.testing.assert_allclose(sharded.arrays[step][key], array, rtol=1e-5, atol=1e-7, err_msg=key)
    last = [array for key, array in sharded.arrays[STEPS].items() if key.startswith("model/")]
    for weight, array in zip(sharded.weights, last, strict=True):
        np.testing.assert_array_equal(weight, array)
    np.testing.assert_array_equal(restored, value)


@pytest.mark.parametrize("dies", [False, True], ids=["refused", "killed"])
def test_the_last_complete_one_is_found_where_a_server_fails_while_it_writes(dies: bool) -> None:
    """For two steps, the server has a file size limit. Exceeding it causes an error or a signal that kills it."""

    def program(ctx: FakeContext) -> Any:
        import keras
        import tensorflow as tf

        from jupyter_dtf.backend.task.checkpoint import files

        place = ctx.run_dir / "run" / "checkpoints"

        class Limited(keras.callbacks.Callback):
            def __init__(self) -> None:
                super().__init__()
                self.found: list[int] = []

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                step = batch + 1
                if step == 3:  # the checkpoint of step 1 is complete, and perhaps that of step 2
                    self._limit(64 << 10)
                elif step == 5:  # that of step 3 has failed, and perhaps that of step 4
                    self.found.append(files.newest(place).manifest.step)
                    self._limit(resource.RLIM_INFINITY)

            def _limit(self, size: int) -> None:
                pid = int((ctx.shared_dir / "server").read_text())
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

        if ctx.task == "ps:1":
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL if dies else signal.SIG_IGN)
            (ctx.shared_dir / "server").write_text(str(os.getpid()))
        policy, limited = Checkpoint(every_steps=1, keep=20), Limited()
        with contextlib.suppress(RuntimeError, tf.errors.OpError) if dies else contextlib.nullcontext():
            train(ctx, "run", ParameterServer(sync=True), checkpoint=policy, callbacks=[limited])
        if not ctx.is_chief:
            return None
        return [*limited.found, files.newest(place).manifest.step], sorted(path.name for path in place.iterdir())

    found, there = run_gang(3, program, servers=2, may_die=dies)[0]
    if dies:
        assert found in ([1], [2])
        assert there == [str(step) for step in range(1, found[0] + 1)]
    else:
        assert found in ([1, STEPS], [2, STEPS])
        assert "3" not in there and not [name for name in there if not name.isdigit()]
