"""Tests that every strategy rejects what it cannot train before anything starts."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import jupyter_dtf as dtf
from jupyter_dtf.backend.task.fit.checks import Asked
from jupyter_dtf.backend.task.fit.pipeline.checks import refused_as_drawn
from jupyter_dtf.backend.task.fit.strategies import refusals, validate
from jupyter_dtf.client.fit import prepare
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.strategy import Strategy

ONE, TWO = ("/job:worker/task:0", "/job:worker/task:1")
X, Y = np.zeros((8, 2), np.float32), np.zeros((8, 2), np.float32)


class OwnStep(keras.Model):
    def train_step(self, data: Any) -> Any:
        return super().train_step(data)


class OwnFunction(keras.Model):
    def make_train_function(self, force: bool = False) -> Any:
        return super().make_train_function(force)


class Wandering(keras.optimizers.SGD):
    """An optimizer whose update of one variable may depend on others."""

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        return super().apply(grads, trainable_variables)


class Float8(keras.layers.Layer):
    def build(self, input_shape: Any) -> None:
        self.scale = self.add_weight(shape=(1,), initializer="ones")
        self.scale.overwrite_with_gradient = True

    def call(self, inputs: Any) -> Any:
        return inputs * self.scale


def model(
    kind: Any = keras.Model, optimizer: Any = "sgd", loss: Any = "mse", layer: Any = None, **compiled: Any
) -> Any:
    inputs = keras.Input((2,))
    x = layer(inputs) if layer is not None else inputs
    made = kind(inputs, keras.layers.Dense(2, name="dense")(x))
    made.compile(optimizer=optimizer, loss=loss, **compiled)
    return made


def two_optimizers() -> Any:
    made = model()
    made.second = keras.optimizers.SGD()
    return made


def placed(**options: Any) -> dtf.Pipeline:
    return dtf.Pipeline({"dense": ONE}, **options)


def halves(**layer: Any) -> tuple[Strategy, Any]:
    strategy = dtf.Pipeline(dtf.Placement(splits={"dense": [ONE, TWO]}))
    inputs = keras.Input((2,))
    made = keras.Model(inputs, keras.layers.Dense(2, name="dense", **layer)(inputs))
    made.compile("sgd", "mse")
    return strategy, made


def stateful() -> Any:
    inputs = keras.Input(batch_shape=(4, 2, 1))
    made = keras.Model(inputs, keras.layers.SimpleRNN(2, stateful=True, name="rnn")(inputs))
    made.compile("sgd", "mse")
    return made


PS = dtf.ParameterServer
BACKUP = PS(sync=True, backup_workers=1)
JOBS = {"worker": 2, "ps": 1}
CASES: dict[str, tuple[Strategy, Any, dict[str, int], str]] = {
    "stateful, all-reduce": (dtf.AllReduce(), stateful, JOBS, "stateful=True on 2 tasks"),
    "stateful, ps": (PS(), stateful, JOBS, "stateful=True on 2 tasks"),
    "stateful, replicas": (dtf.InGraph(), stateful, JOBS, "stateful=True on 2 tasks"),
    "stateful, two replicas of a task": (
        dtf.InGraph(devices=("/gpu:0", "/gpu:1")),
        stateful,
        {"worker": 1},
        "stateful=True on 2 tasks",
    ),
    "weights without a mean": (
        dtf.AllReduce(),
        lambda: model(layer=Float8(name="float8")),
        JOBS,
        "whose gradient is its next value",
    ),
    "weights without a mean, ps": (
        PS(),
        lambda: model(layer=Float8(name="float8")),
        {"worker": 1, "ps": 1},
        "whose gradient is its next value",
    ),
    "a layer along the examples": (
        dtf.AllReduce(),
        lambda: model(layer=keras.layers.UnitNormalization(axis=0)),
        JOBS,
        "UnitNormalization with axis=0",
    ),
    "a layer along the examples, counted from the end": (
        dtf.InGraph(),
        lambda: model(layer=keras.layers.Softmax(axis=-2)),
        JOBS,
        "Softmax with axis=0",
    ),
    "a loss along the examples": (
        PS(),
        lambda: model(loss=keras.losses.CosineSimilarity(axis=0)),
        JOBS,
        "which is computed over all examples of a batch together with axis=0",
    ),
    "a loss along the examples, counted from the last axis": (
        PS(),
        lambda: model(loss=keras.losses.CosineSimilarity(axis=-2)),
        JOBS,
        "which is computed over all examples of a batch together with axis=-2",
    ),
    "two optimizers, ps": (PS(), two_optimizers, JOBS, "one optimizer under parameter servers, got 2"),
    "scaled losses, ps": (
        PS(),
        lambda: model(optimizer=keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())),
        JOBS,
        "must not scale its loss",
    ),
    "global_clipnorm on two ps tasks": (
        PS(),
        lambda: model(optimizer=keras.optimizers.SGD(global_clipnorm=1.0)),
        {"worker": 1, "ps": 2},
        "2 ps tasks",
    ),
    "an optimizer of one's own on two ps tasks": (
        PS(),
        lambda: model(optimizer=Wandering()),
        {"worker": 1, "ps": 2},
        "with several ps tasks",
    ),
    "several steps at once, backup workers": (
        BACKUP,
        lambda: model(steps_per_execution=2),
        JOBS,
        "`steps_per_execution` must be 1 with backup_workers",
    ),
    "a masked mean, backup workers": (
        BACKUP,
        lambda: model(layer=keras.layers.Masking()),
        JOBS,
        "a loss must be a mean over examples, without masks",
    ),
    "a sum, backup workers": (
        BACKUP,
        lambda: model(loss=keras.losses.MeanSquaredError(reduction="sum")),
        JOBS,
        "a loss must be a mean over examples, without masks",
    ),
    "as many backup workers as workers": (BACKUP, model, {"worker": 1, "ps": 1}, "got 1 with 1 workers"),
    "run_eagerly, pipeline": (placed(), lambda: model(run_eagerly=True), JOBS, "run_eagerly=False"),
    "no optimizer, pipeline": (placed(), lambda: model(optimizer=None), JOBS, "must have a Keras optimizer"),
    "a train function of one's own, pipeline": (
        placed(),
        lambda: model(OwnFunction),
        JOBS,
        "must not override make_train_function",
    ),
    "a train_step of one's own in copies": (placed(replicas=2), lambda: model(OwnStep), JOBS, "with replicas=2"),
    "a split layer with a constraint": (*halves(kernel_constraint="non_neg"), JOBS, "must not have constraints"),
    "copies that do not share the tasks": (
        placed(replicas=2),
        model,
        {"worker": 3},
        "number of tasks (3), got 2",
    ),
    "a task that is not there": (
        dtf.InGraph(devices=("/job:worker/task:2/device:CPU:0",)),
        model,
        JOBS,
        "must belong to tasks of the run (",
    ),
    "what is no device": (dtf.InGraph(devices=("fast",)), model, JOBS, "got 'fast'"),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_by_the_client(name: str) -> None:
    strategy, made, jobs, message = CASES[name]
    trained = made() if not isinstance(made, keras.Model) else made
    x = np.zeros((8, 2, 1), np.float32) if "stateful" in name else X
    with pytest.raises(InvalidInput) as refused:
        prepare(trained, x, Y, batch_size=4, strategy=strategy).check_jobs(jobs)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (placed(), "`min_workers` must be None with a dtf.Pipeline that has one copy, because each task has"),
        (dtf.InGraph(devices=("/job:worker/task:1/device:CPU:0",)), "must be None if dtf.InGraph names its devices"),
        (BACKUP, "must be greater than backup_workers, got min_workers=1, backup_workers=1"),
    ],
)
def test_fewer_workers_are_refused_where_each_is_needed(strategy: Any, message: str) -> None:
    prepared = prepare(model(), X, Y, batch_size=4, strategy=strategy)
    prepared.check_jobs(JOBS, dtf.Restart())
    with pytest.raises(InvalidInput, match=message) as refused:
        prepared.check_jobs(JOBS, dtf.Restart(min_workers=1))
    assert refused.value.field == "restart.min_workers"


def test_the_workers_of_a_copy_are_one_group() -> None:
    def group(strategy: Any, jobs: dict[str, int]) -> int:
        prepared = prepare(model(), X, Y, batch_size=4, strategy=strategy)
        prepared.check_jobs(jobs, dtf.Restart(min_workers=1))
        return prepared.worker_group(jobs)

    assert group(placed(replicas=2), {"chief": 1, "worker": 3}) == 2
    assert group("allreduce", JOBS) == 1


@pytest.mark.parametrize("strategy", [dtf.AllReduce(), PS(), PS(sync=True), dtf.InGraph()])
def test_where_none_is_needed_fewer_may_go_on(strategy: Any) -> None:
    prepare(model(), X, Y, batch_size=4, strategy=strategy).check_jobs(JOBS, dtf.Restart(min_workers=1))


def test_nothing_is_refused_of_a_plain_model() -> None:
    for strategy in (dtf.AllReduce(), PS(), BACKUP, dtf.InGraph(), placed()):
        validate(Asked(strategy, JOBS), model())
        assert refusals(Asked(strategy, JOBS), model()) == []


def test_a_function_is_called_in_the_tasks_alone_and_its_jobs_are_checked() -> None:
    def never() -> Any:
        raise AssertionError("it is called in a task")

    with pytest.raises(InvalidInput, match=r"number of tasks \(3\), got 2"):
        prepare(never, X, Y, strategy=placed(replicas=2)).check_jobs({"worker": 3})


def test_one_replica_keeps_state_whatever_the_number_of_tasks() -> None:
    validate(Asked(dtf.InGraph(devices=("/cpu:0",)), {"worker": 2}), stateful())


def found(made: Any) -> list[tuple[str, str]]:
    return [(refusal.field, refusal.message) for refusal in refused_as_drawn(made)]


def test_a_design_is_told_what_holds_when() -> None:
    assert found(model()) == []
    assert [field for field, _ in found(stateful())] == []  # a pipeline can train it
    ((field, message),) = found(model(run_eagerly=True))
    assert field == "model" and "run_eagerly=False" in message
    assert [field for field, _ in found(model(OwnStep))] == ["run.replicas", "placement.splits"]
    _, constrained = halves(kernel_constraint="non_neg")
    assert [field for field, _ in found(constrained)] == ["placement.splits.dense"]
    words = keras.layers.StringLookup(vocabulary=["a"])
    lookup = keras.Sequential([keras.Input((1,), dtype=tf.string), words, keras.layers.Embedding(3, 2)])
    lookup.compile("sgd", "mse")
    assert "table" in found(lookup)[0][1]


def test_a_model_that_is_not_compiled_is_told() -> None:
    bare = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)], name="bare")
    assert found(bare) == [
        ("model", "A model must be compiled before it is trained, but 'bare' is not: call model.compile(...)")
    ]
