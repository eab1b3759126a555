"""Tests that the code of layers, losses, metrics and steps does the same in a pipeline as in one process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from jupyter_dtf.errors import InvalidInput

from ...gang import FakeContext, optimize_graphs, run_gang
from ..cases import _data, digits
from ..comparison import Recorded, _recorder, _seeded, compare, plain
from .graph_cases import GRAPH_CASES, _compiled
from .placed import fit

REFUSED = {
    "assigned from the batch": "in its call must not depend on the batch",
    "a variable of TensorFlow's": "must keep its changing values in its own weights",
    "a metric in a layer": "must keep its changing values in its own weights",
    "a table": "must be variables and tensors",
    "recomputed activations": "must not recompute activations",
}


def every_case(ctx: FakeContext) -> Any:
    found = {}
    for name, case in GRAPH_CASES.items():
        recorder = _recorder()
        arguments = {**case.fit, "shuffle": False, "callbacks": [recorder]}
        job, here = fit(ctx, _seeded(case), microbatches=3, **arguments)
        found[name] = here and Recorded(recorder.steps, job.model.get_weights(), job.model.history.history, ctx=here)
    return found


def users_have(ctx: FakeContext) -> dict[str, Recorded]:
    """Train the cases in one process with TensorFlow's graph optimization, as users do.

    Without it, one bias, whose gradient is nearly zero, changes differently.
    """
    optimize_graphs(True)
    return plain(GRAPH_CASES)(ctx)


@pytest.fixture(scope="module")
def reference() -> dict[str, Recorded]:
    results: dict[str, Recorded] = run_gang(1, users_have)[0]
    return results


@pytest.fixture(scope="module")
def pipelined() -> dict[str, Any]:
    (chief, _) = run_gang(2, every_case)
    return dict(chief)


@pytest.mark.parametrize("name", GRAPH_CASES)
def test_weights_follow_one_process(name: str, reference: dict[str, Recorded], pipelined: dict[str, Any]) -> None:
    compare(GRAPH_CASES[name], reference[name], pipelined[name])


def test_a_step_of_ones_own_is_run_without_overlap_and_says_so(pipelined: dict[str, Any]) -> None:
    notes = [title for _, title, _ in pipelined["own train_step and test_step"].more["ctx"].notes]
    assert "A custom train_step runs without microbatches" in notes


def refused(name: str) -> Any:
    """Return a model with a layer that several microbatches cannot share."""
    import keras
    import tensorflow as tf

    class Refused(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.kernel = self.add_weight(shape=(6,), initializer="ones")
            self.held = tf.Variable(1.0)
            self.seen = keras.metrics.Mean()
            table = tf.lookup.KeyValueTensorInitializer(tf.constant([0, 1], tf.int64), tf.constant([1.0, 2.0]))
            self.table = tf.lookup.StaticHashTable(table, 0.0)

        def call(self, x: Any) -> Any:
            mean = tf.reduce_mean(x, 0)
            if name == "assigned from the batch":
                self.kernel.assign(self.kernel + mean)
            elif name == "a variable of TensorFlow's":
                self.held.assign_add(1.0)
            elif name == "a metric in a layer":
                self.seen.update_state(mean)
            elif name == "recomputed activations":
                return keras.remat(lambda x: x * self.kernel)(x)
            else:
                x = x * self.table.lookup(tf.cast(x > 0, tf.int64))
            return x * self.kernel

    return _compiled(Refused())


def refusals_and_effects(ctx: FakeContext) -> Any:
    """Return the errors of refused models, the lines that effects wrote, the error of a failed assertion, and the pid.

    Each line contains the pid of the process that wrote it.
    """
    import keras
    import tensorflow as tf

    found = {}
    for name in REFUSED if ctx.is_chief else ():
        with pytest.raises(InvalidInput) as raised:
            fit(ctx, refused(name), **_data(epochs=1), microbatches=3)
        found[name] = str(raised.value)

    file = str(ctx.run_dir / "effects.txt")

    def wrote(text: Any) -> None:
        with open(file, "a") as end:
            end.write(f"{os.getpid()} {text}\n")

    class Counted(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            tf.py_function(lambda length: wrote(int(length)), [tf.shape(x)[0]], [])
            tf.py_function(lambda: wrote("then"), [], [])
            return x

    class Bounded(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            tf.debugging.assert_less(tf.reduce_max(x), 1.0, message="too large")
            return x

    keras.utils.set_random_seed(3)
    x, y = digits(50)
    placement = {name: f"/job:worker/task:{task}" for name, task in (("a", 0), ("b", 1), ("c", 1))}

    def train(layer: Any) -> None:
        def model() -> Any:
            layers = [keras.layers.Dense(6, name="a"), layer(name="b"), keras.layers.Dense(3, name="c")]
            model = keras.Sequential([keras.Input((6,)), *layers])
            model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            return model

        fit(ctx, model, x, y, batch_size=12, shuffle=False, placement=placement, microbatches=3, check=False)

    train(Counted)
    error = ""
    if ctx.is_chief:
        with pytest.raises(RuntimeError, match="Batch 1 of epoch 1") as failed:
            train(Bounded)
        error = str(failed.value)
    lines = Path(file).read_text().splitlines() if ctx.is_chief else []
    return found, [line.split() for line in lines], error, os.getpid()


def test_what_cannot_be_had_is_refused_and_what_has_effects_runs() -> None:
    (found, lines, error, process), _ = run_gang(2, refusals_and_effects)
    for name, said in REFUSED.items():
        assert said in found[name]
    # Once per microbatch, in the client's process, although the layer is on the other task.
    assert {number for number, _ in lines} == {str(process)}
    texts = [text for _, text in lines]
    assert sorted(texts) == sorted(["1", "1", *["4"] * 12, *["then"] * 14])
    assert all(texts[:n].count("then") <= n / 2 for n in range(len(texts) + 1))
    assert "too large" in error
