"""Tests that ``fit`` leaves on the caller's model what Keras would: attributes, all variables, and the history."""

from __future__ import annotations

import dataclasses
import pickle
import random
import warnings
from typing import Any

import cloudpickle
import keras
import numpy as np
import pytest
import tensorflow as tf

from jupyter_dtf.client.fit import prepare
from jupyter_dtf.schema.checkpoint import Checkpoint
from jupyter_dtf.schema.strategy import AllReduce, InGraph, ParameterServer

from ..gang import FakeContext, run_gang
from .cases import digits

ARGUMENTS: dict[str, Any] = {"batch_size": 8, "epochs": 3, "shuffle": False}
LOSS = "sparse_categorical_crossentropy"


class Warming(keras.Model):
    """A model that counts its steps in a ``tf.Variable``, which Keras does not track, and uses it in its loss."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.first = keras.layers.Dense(8, "tanh")
        self.last = keras.layers.Dense(3, "softmax")
        self.steps_done = tf.Variable(0.0, trainable=False)
        self.temperature = 1.0
        self.log: list[int] = []
        self.was_cooled = False

    def call(self, x: Any) -> Any:
        return self.last(self.first(x))

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
            loss = loss * tf.minimum(1.0, self.steps_done / 10.0)
        self.optimizer.apply_gradients(
            zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables, strict=True)
        )
        self.steps_done.assign_add(1.0)
        return {"loss": loss}


class Cooling(keras.callbacks.Callback):
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.model.temperature *= 0.5
        self.model.log.append(epoch)
        self.model.was_cooled = True


def warming(x: Any) -> Any:
    keras.utils.set_random_seed(3)
    model = Warming()
    model(x[:1])
    model.compile(keras.optimizers.SGD(0.1), LOSS)
    return model


def small() -> Any:
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Dense(8, "tanh"), keras.layers.Dense(3, "softmax")]
    model = keras.Sequential([keras.Input((6,)), *layers])
    model.compile(keras.optimizers.SGD(0.1), LOSS, metrics=["accuracy"])
    return model


def fitted(ctx: FakeContext, name: str, model: Any, x: Any, y: Any, **arguments: Any) -> bool:
    """Fit ``model`` in the gang and put the result into it, on the chief. Return whether this is the chief."""
    random.seed(5)
    fresh: dict[str, Any] = {each: [] for each in ("points", "notes", "epochs", "progressed", "saved", "removed")}
    here = dataclasses.replace(ctx, shared_dir=ctx.shared_dir / name, run_dir=ctx.run_dir / name, **fresh)
    here.shared_dir.mkdir(exist_ok=True)
    job: Any = None

    def prepared() -> bytes:
        nonlocal job
        job = prepare(model, x, y, **{**ARGUMENTS, **arguments})
        return bytes(cloudpickle.dumps(job.program))

    program, positional, _ = pickle.loads(here.by_one_client(prepared))
    result = program(*positional, here)
    if result is None:
        return False
    job.finish(pickle.loads(cloudpickle.dumps(result)))
    return True


def assert_close(ours: Any, theirs: Any) -> None:
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_variables_that_keras_does_not_track_and_attributes_come_back_and_go_on() -> None:
    x, y = digits(24)
    plain = warming(x)
    for _ in range(2):
        plain.fit(x, y, verbose=0, callbacks=[Cooling()], **ARGUMENTS)

    def program(ctx: FakeContext) -> Any:
        model = warming(x)
        for number in range(2):
            fitted(ctx, str(number), model, x, y, callbacks=[Cooling()])
        return model.get_weights(), float(model.steps_done), model.temperature, list(model.log), model.was_cooled

    weights, steps, temperature, log, was_cooled = run_gang(2, program)[0]
    assert_close(weights, plain.get_weights())
    assert (steps, temperature, log, was_cooled) == (18.0, 0.5**6, [0, 1, 2, 0, 1, 2], True)
    assert (float(plain.steps_done), plain.temperature, list(plain.log)) == (steps, temperature, log)


@pytest.mark.parametrize("step", [3, 4])
def test_a_resumed_training_has_them_too(step: int) -> None:
    """Training is resumed at the end of an epoch, and within one."""
    x, y = digits(24)

    def program(ctx: FakeContext) -> Any:
        fitted(ctx, "whole", warming(x), x, y, callbacks=[Cooling()], checkpoint=Checkpoint(every_steps=1, keep=20))
        model, path = warming(x), str(ctx.run_dir / "whole" / "checkpoints" / str(step))
        fitted(ctx, "resumed", model, x, y, callbacks=[Cooling()], resume=path, checkpoint=False)
        return model.get_weights(), float(model.steps_done), model.temperature, list(model.log), model.was_cooled

    plain = warming(x)
    plain.fit(x, y, verbose=0, callbacks=[Cooling()], **ARGUMENTS)
    weights, *others = run_gang(2, program)[0]
    assert_close(weights, plain.get_weights())
    assert others == [9.0, 0.125, [0, 1, 2], True]


def test_the_history_and_the_flags_are_kerass() -> None:
    x, y = digits(24)

    def program(ctx: FakeContext) -> Any:
        stopping = keras.callbacks.EarlyStopping("loss", min_delta=10.0, patience=1)
        history = keras.callbacks.History()
        model = small()
        if not fitted(ctx, "stopped", model, x, y, epochs=6, callbacks=[stopping, history]):
            return None
        known = {name: stopping.params[name] for name in ("epochs", "steps")}
        return model.stop_training, model.history is history, history.params == stopping.params, known, history.epoch

    found = run_gang(2, program)[0]
    stopping = keras.callbacks.EarlyStopping("loss", min_delta=10.0, patience=1)
    plain = small()
    history = plain.fit(x, y, verbose=0, callbacks=[stopping], **{**ARGUMENTS, "epochs": 6})
    assert found == (True, True, True, {"epochs": 6, "steps": 3}, history.epoch)
    assert plain.stop_training and {name: history.params[name] for name in ("epochs", "steps")} == found[3]


@pytest.mark.parametrize(("size", "servers", "strategy"), [(2, 0, AllReduce()), (3, 1, ParameterServer(sync=True))])
def test_validation_counts_each_example_once_if_several_steps_are_executed_at_once(
    size: int, servers: int, strategy: Any
) -> None:
    x, y = digits(50)
    cases = [(3, 50, 33, None), (2, 50, 10, None), (3, 50, 10, 4), (3, 50, 10, 2)]

    def arguments(case: Any) -> dict[str, Any]:
        _, examples, batch, steps = case
        validation = {"validation_batch_size": batch, "validation_steps": steps}
        return {**ARGUMENTS, "batch_size": 20, "validation_data": (x[:examples], y[:examples]), **validation}

    def made(case: Any) -> Any:
        model = small()
        model.compile(keras.optimizers.SGD(0.1), LOSS, metrics=["accuracy"], steps_per_execution=case[0])
        return model

    def program(ctx: FakeContext) -> Any:
        found = []
        for number, case in enumerate(cases):
            model = made(case)
            if fitted(ctx, str(number), model, x, y, strategy=strategy, **arguments(case)):
                found.append(model.history.history)
        return found

    for case, history in zip(cases, run_gang(size, program, servers=servers)[0], strict=True):
        plain = made(case).fit(x, y, verbose=0, **arguments(case)).history
        for name in ("val_loss", "val_accuracy"):
            assert history[name] == pytest.approx(plain[name], rel=1e-4), (case, name)


def test_a_subclass_that_is_only_marked_as_built_is_trained() -> None:
    x, y = digits(24)

    class Plain(keras.Model):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.first, self.last = keras.layers.Dense(8, "tanh"), keras.layers.Dense(3, "softmax")

        def call(self, x: Any) -> Any:
            return self.last(self.first(x))

    def made() -> Any:
        keras.utils.set_random_seed(3)
        model = Plain()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.build((None, 6))
        model.compile(keras.optimizers.SGD(0.1), LOSS)
        return model

    def program(ctx: FakeContext) -> Any:
        model = made()
        return model.get_weights() if fitted(ctx, "marked", model, x, y) else None

    plain = made()
    plain.fit(x, y, verbose=0, **ARGUMENTS)
    assert_close(run_gang(2, program)[0], plain.get_weights())


def frozen() -> Any:
    model = small()
    model.trainable = False
    model.compile(keras.optimizers.SGD(0.1), LOSS, metrics=["accuracy"])
    return model


def test_a_model_without_trainable_weights_is_measured() -> None:
    x, y = digits(24)

    def over_tasks(ctx: FakeContext) -> Any:
        model = frozen()
        return model.history.history if fitted(ctx, "frozen", model, x, y) else None

    def on_replicas(ctx: FakeContext) -> Any:
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        model = frozen()
        fitted(ctx, "frozen", model, x, y, strategy=InGraph())
        return model.history.history

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras warns of models without trainable weights
        plain = frozen().fit(x, y, verbose=0, **ARGUMENTS).history
        for history in (run_gang(2, over_tasks)[0], run_gang(1, on_replicas)[0]):
            assert {name: history[name] for name in plain} == {
                name: pytest.approx(values, rel=1e-5) for name, values in plain.items()
            }
    with pytest.raises(Exception, match="must have trainable weights, because parameter servers hold them"):
        run_gang(2, lambda ctx: fitted(ctx, "served", frozen(), x, y, strategy=ParameterServer(sync=True)), servers=1)


def test_servers_train_a_model_that_is_only_marked_as_built() -> None:
    """Keras's ``build()`` creates no weights in a subclass without a ``build()`` of its own."""

    def program(ctx: FakeContext) -> Any:
        class Marked(keras.Model):
            def __init__(self, **options: Any) -> None:
                super().__init__(**options)
                self.first, self.second = keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(10)

            def call(self, x: Any) -> Any:
                return self.second(self.first(x))

        model = Marked()
        model.build((None, 6))
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        assert model.built
        assert not model.weights
        trained = fitted(ctx, "marked", model, *digits(24), strategy=ParameterServer(sync=True))
        return trained and len(model.weights)

    assert run_gang(3, program, servers=1)[0] == 4
