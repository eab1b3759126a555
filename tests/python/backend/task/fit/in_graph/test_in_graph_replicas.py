"""Tests of replicas on several devices, compared with one plain Keras process, and of where their operations run."""

from __future__ import annotations

import dataclasses
import pickle
import random
from functools import partial
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.errors import InvalidInput

from .....tiers import cut
from ...gang import FakeContext, run_gang
from ..added_loss_cases import ADDED_LOSS_CASES
from ..cases import CASES as PLAIN_CASES
from ..cases import dense, digits
from ..comparison import Recorded, _pickled, _recorder, _seeded, alone, compare
from ..optimizer_cases import OPTIMIZER_CASES
from ..outside_cases import OUTSIDE_CASES
from ..strategy_cases import STRATEGY_CASES

CASES = {**PLAIN_CASES, **STRATEGY_CASES, **OPTIMIZER_CASES, **OUTSIDE_CASES, **ADDED_LOSS_CASES}
UNEVEN = ["one example in the last batch", "sum over examples, weights regularized", "masked sequences, embedding"]
CHOSEN = [
    "sgd, last batch smaller than the cluster",
    "momentum and clipping",
    "adam, class weights",
    "sample weights",
    *UNEVEN,
    "several inputs and outputs",
    "weights for one of two outputs",
    "steps per epoch, the last fewer",
    "own train_step",
    "logs derived from metrics",
    "two optimizers",
    "steps per execution",
    "run eagerly",
    "XLA asked for",
    "early stopping",
    "positions and words in one lookup",
    "positions, run eagerly",
    "Nadam",
    "own: Pairs",
    "spectral norm",
    "decay",
]
ADDED = list(ADDED_LOSS_CASES)


def devices(count: int) -> None:
    """Divide this process's CPU into several devices."""
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)


def fit(ctx: FakeContext, model: Any, x: Any, y: Any = None, replicas: tuple[str, ...] = (), **arguments: Any) -> Any:
    """Do what the client and then this task does. Return the prepared fit, and the context, or None if the task only
    provides its devices.
    """
    import jupyter_dtf.client.fit as client
    from jupyter_dtf.schema.strategy import InGraph

    random.seed(5)
    here = dataclasses.replace(ctx, points=[], notes=[], epochs=[], progressed=[])
    job = client.prepare(model, x, y, strategy=InGraph(devices=replicas), **arguments)
    program, positional, _ = pickle.loads(_pickled(job.program))
    result = program(*positional, here)
    if result is None:
        return job, None
    job.finish(pickle.loads(_pickled(result)))
    return job, here


def case(ctx: FakeContext, name: str, **more: Any) -> Recorded | None:
    recorder = _recorder()
    arguments = {**CASES[name].fit, "shuffle": False, "callbacks": [*CASES[name].callbacks(), recorder], **more}
    job, here = fit(ctx, partial(_seeded, CASES[name]), **arguments)
    return here and Recorded(recorder.steps, job.model.get_weights(), job.model.history.history, ctx=here)


@pytest.fixture(scope="module")
def reference() -> dict[str, Recorded]:
    return alone({name: CASES[name] for name in [*CHOSEN, *ADDED]})


@pytest.mark.parametrize(
    ("count", "names"), cut([(2, CHOSEN), (3, [CHOSEN[0], *UNEVEN]), (2, ADDED)], keep=[(2, CHOSEN), (2, ADDED)])
)
def test_replicas_follow_one_process(count: int, names: list[str], reference: dict[str, Recorded]) -> None:
    def program(ctx: FakeContext) -> dict[str, Recorded | None]:
        devices(count)
        return {name: case(ctx, name) for name in names}

    (results,) = run_gang(1, program)
    for name in names:
        compare(CASES[name], reference[name], results[name])
        assert results[name].more["ctx"].notes[0][1] == f"Replicas: {count}"


def matmuls_by_task(ctx: FakeContext) -> Any:
    """Train with one replica per task. Return the result and the number of matrix products per device, on the chief.

    The products are counted in the graphs into which TensorFlow has partitioned the step.
    """
    from tensorflow.python.eager import context

    if ctx.is_chief:
        context.context().enable_run_metadata()
    result = case(ctx, CHOSEN[0], check=False)  # the returned model is not called for a comparison
    if result is None:
        return None
    where: dict[str, int] = {}
    for function in context.context().export_run_metadata().function_graphs:
        if len(function.partition_graphs) > 1:
            for node in (node for graph in function.partition_graphs for node in graph.node):
                where[node.device] = where.get(node.device, 0) + ("MatMul" in node.op)
    return result, where


def test_each_task_of_a_gang_carries_a_replica(reference: dict[str, Recorded]) -> None:
    (result, where), *others = run_gang(3, matmuls_by_task)
    assert others == [None, None]
    compare(CASES[CHOSEN[0]], reference[CHOSEN[0]], result)
    one = 5  # two layers: two forward, two for the weights' gradients, one for the gradient between the layers
    assert where == {
        # The chief also computes batches with fewer examples than replicas.
        "/job:worker/replica:0/task:0/device:CPU:0": 2 * one,
        "/job:worker/replica:0/task:1/device:CPU:0": one,
        "/job:worker/replica:0/task:2/device:CPU:0": one,
    }


def test_what_replicas_estimate_is_averaged_and_random_numbers_differ() -> None:
    def program(ctx: FakeContext) -> Any:
        import keras

        devices(2)

        class Counting(keras.layers.Layer):
            def build(self, shape: Any) -> None:
                self.calls = self.add_weight(shape=(), dtype="int32", initializer="zeros", trainable=False)
                self.mean = self.add_weight(shape=(), initializer="zeros", trainable=False)

            def call(self, x: Any) -> Any:
                self.calls.assign_add(1)
                self.mean.assign(keras.ops.mean(x))
                return x

        class Dropped(keras.callbacks.Callback):
            def __init__(self) -> None:
                super().__init__()
                self.states: list[Any] = []

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                self.states.append(
                    [v.numpy().tolist() for v in self.model.variables if v.name == "seed_generator_state"]
                )

        layers = [keras.Input((6,)), Counting(), keras.layers.Dropout(0.5), keras.layers.Dense(3)]
        model = keras.Sequential(layers)
        model.compile("sgd", "mse", metrics=["mae"])
        dropped = Dropped()
        x = np.arange(60, dtype="float32").reshape(10, 6)
        job, here = fit(ctx, model, x, x[:, :3], batch_size=5, shuffle=False, callbacks=[dropped])
        return [w.tolist() for w in job.model.layers[0].get_weights()], here.points, float(x[5:].mean()), dropped.states

    ((calls, mean), points, expected, drops), *_ = run_gang(1, program)
    assert calls == 2  # steps, not steps of each replica
    assert mean == pytest.approx(expected, rel=1e-6)
    (first,), (second,) = drops
    assert second[1] - first[1] == 2  # each replica has drawn its own number in the step
    assert [step for step, values in points if "mae" in values] == [1, 2]


def test_one_client_has_all_the_data() -> None:
    def program(ctx: FakeContext) -> Any:
        import tensorflow as tf

        def model() -> Any:
            import keras

            keras.utils.set_random_seed(3)
            return dense(keras.optimizers.SGD(0.1))

        def data_fn(ctx: Any) -> Any:
            return ctx.shard(tf.data.Dataset.from_tensor_slices(digits(26))).batch(8)

        job, here = fit(ctx, model, data_fn, epochs=2)
        if here is None:
            return None
        alone = model()
        alone.fit(data_fn(dataclasses.replace(here, size=1)), epochs=2, verbose=0)
        return job.model.get_weights(), alone.get_weights(), here.progressed[-1]

    (ours, theirs, progressed), _ = run_gang(2, program)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)
    assert progressed == (8, 8)


def test_devices_are_chosen_or_refused_with_what_is_there() -> None:
    def program(ctx: FakeContext) -> Any:
        import keras

        devices(2)

        def model() -> Any:
            return dense(keras.optimizers.SGD(0.1))

        _, here = fit(ctx, model, *digits(8), replicas=("CPU:1",))
        errors = []
        for wanted in ("/job:worker/task:0/device:GPU:0", "/job:worker/task:1", "worker one"):
            with pytest.raises(InvalidInput) as raised:
                fit(ctx, model, *digits(8), replicas=(wanted,))
            errors.append(str(raised.value))
        return here.notes, errors

    notes, (gpu, task, malformed) = run_gang(1, program)[0]
    assert notes == [("info", "Replicas: 1", "/device:CPU:1")]
    there = "/job:worker/task:0/device:CPU:0, /job:worker/task:0/device:CPU:1"
    assert gpu == f"`devices` must be devices of the run ({there}), got '/job:worker/task:0/device:GPU:0'"
    assert task == f"`devices` must be devices of the run ({there}), got '/job:worker/task:1'"
    assert "`devices` must be TensorFlow device names, such as" in malformed


def test_a_train_step_where_replicas_cannot_meet_is_refused() -> None:
    def program(ctx: FakeContext) -> list[str]:
        import keras
        import tensorflow as tf

        devices(2)

        class Idle(keras.Sequential):
            def train_step(self, data: Any) -> Any:
                return {"loss": keras.ops.mean(self(data[0]))}

        class Looping(keras.Sequential):
            def train_step(self, data: Any) -> Any:
                step = super().train_step
                return {
                    "loss": tf.while_loop(lambda i, _: i < 2, lambda i, _: (i + 1, step(data)["loss"]), (0, 0.0))[1]
                }

        errors = []
        for kind in (Idle, Looping):

            def model(kind: Any = kind) -> Any:
                made = kind([keras.Input((6,)), keras.layers.Dense(3, activation="softmax")])
                made.compile("sgd", "sparse_categorical_crossentropy")
                return made

            with pytest.raises(InvalidInput) as raised:
                fit(ctx, model, *digits(20), batch_size=5)
            errors.append(str(raised.value))
        return errors

    idle, looping = run_gang(1, program)[0]
    assert "calls neither" in idle
    assert "top level" in looping


def test_an_optimizer_that_is_not_the_models_own_is_refused_as_by_several_tasks() -> None:
    def program(ctx: FakeContext) -> list[str]:
        import keras
        import tensorflow as tf

        devices(2)

        class Holding(keras.Model):
            """A model that updates an inner model with that model's optimizer, or with one that is no attribute."""

            def __init__(self, hidden: bool) -> None:
                super().__init__()
                self.net = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4)])
                self.out = keras.layers.Dense(3, activation="softmax")
                self.net.compile(keras.optimizers.SGD(0.1))
                other = keras.optimizers.SGD(0.1)
                self.of_net = lambda: other if hidden else self.net.optimizer
                other.build(self.net.trainable_variables)

            def call(self, x: Any) -> Any:
                return self.out(self.net(x))

            def train_step(self, data: Any) -> Any:
                x, y = data
                with tf.GradientTape() as tape:
                    loss = keras.ops.mean(keras.losses.sparse_categorical_crossentropy(y, self(x, training=True)))
                inner, outer = self.net.trainable_variables, self.out.trainable_variables
                gradients = tape.gradient(loss, inner + outer)
                self.of_net().apply(gradients[: len(inner)], inner)
                self.optimizer.apply(gradients[len(inner) :], outer)
                return {"loss": loss}

        errors = []
        for hidden, eagerly in ((False, False), (False, True), (True, False)):

            def model(hidden: bool = hidden, eagerly: bool = eagerly) -> Any:
                made = Holding(hidden)
                made.compile("sgd", run_eagerly=eagerly)
                return made

            with pytest.raises(InvalidInput) as raised:
                fit(ctx, model, *digits(20), batch_size=5)
            errors.append(str(raised.value))
        return errors

    for error in run_gang(1, program)[0]:
        assert "a value that a step assigns to a trainable weight must not depend on the batch" in error
        assert "/kernel. Create this weight" in error
