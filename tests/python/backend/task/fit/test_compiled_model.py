"""Tests of the errors if a callback compiles the model, or makes its train function, during training."""

from __future__ import annotations

from typing import Any

import keras
import pytest

from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.strategy import AllReduce, InGraph, Pipeline

from ..gang import FakeContext, run_gang
from .cases import digits
from .comparison import fit
from .pipeline.placed import halves


class Compiles(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == 1:
            self.model.compile("sgd", "sparse_categorical_crossentropy")
            self.model.make_train_function()


class Unfreezes(keras.callbacks.Callback):
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch == 0:
            self.model.layers[0].trainable = False
            self.model.make_train_function(force=True)


class CompilesAtTheEnd(keras.callbacks.Callback):
    def on_train_end(self, logs: Any = None) -> None:
        self.model.compile("sgd", "sparse_categorical_crossentropy")


def small() -> Any:
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Dense(8, "tanh"), keras.layers.Dense(3, "softmax")]
    model = keras.Sequential([keras.Input((6,)), *layers])
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def trained(ctx: FakeContext, callback: Any, strategy: Any) -> Any:
    """Train with a callback. Return the losses on the chief, None on the other tasks."""
    model = small()
    x, y = digits(24)
    if strategy is Pipeline:
        strategy = Pipeline(halves(model, 1), microbatches=2)
    name = f"{type(callback).__name__}-{type(strategy).__name__}"
    arguments = {"batch_size": 12, "epochs": 3, "shuffle": False, "callbacks": [callback]}
    _, result = fit(ctx, name, model, x, y, strategy=strategy, **arguments)
    return result and result.history["loss"]


COMPILED = "`callbacks` must not compile the model again during training"
MADE = "`callbacks` must not create the train function again during training"


@pytest.mark.parametrize(("callback", "text"), [(Compiles, COMPILED), (Unfreezes, MADE), (CompilesAtTheEnd, COMPILED)])
def test_over_tasks_it_is_refused(callback: Any, text: str) -> None:
    def program(ctx: FakeContext) -> str:
        try:
            return str(trained(ctx, callback(), AllReduce()))
        except Exception as error:  # tasks that wait for the chief raise other errors
            return f"{type(error).__name__}: {error}"

    said = run_gang(2, program)[0]
    assert said.startswith(f"InvalidInput: {text}") and f"one of these did: {callback.__name__}" in said


def test_with_one_client() -> None:
    def program(ctx: FakeContext) -> Any:
        import tensorflow as tf

        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        found: list[Any] = []
        for callback, strategy in [(Compiles(), InGraph()), (Compiles(), Pipeline), (Unfreezes(), Pipeline)]:
            with pytest.raises(InvalidInput) as error:
                trained(ctx, callback, strategy)
            found.append(str(error.value))
        return found, trained(ctx, Unfreezes(), InGraph())

    ((errors, losses),) = run_gang(1, program)
    assert [error.startswith(text) for error, text in zip(errors, (COMPILED, COMPILED, MADE), strict=True)] == [
        True
    ] * 3
    x, y = digits(24)
    plain = small().fit(x, y, batch_size=12, epochs=3, shuffle=False, verbose=0, callbacks=[Unfreezes()]).history
    assert losses == pytest.approx(plain["loss"], rel=1e-5)
