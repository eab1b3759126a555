"""What callbacks change on the model and its parts during training has the same effect as in one process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import keras
import numpy as np
import pytest

from jupyter_dtf.schema.strategy import InGraph

from ..gang import FakeContext, run_gang
from .cases import digits
from .in_graph.test_in_graph_replicas import devices
from .test_callbacks_with_parts import STRATEGIES
from .test_comes_back import fitted

Fit = Callable[..., None]
LOSS = "sparse_categorical_crossentropy"
ARGUMENTS: dict[str, Any] = {"batch_size": 6, "epochs": 3, "shuffle": False}


class Acts(keras.callbacks.Callback):
    """Calls ``act(model, epoch or batch)`` in a hook."""

    def __init__(self, hook: str, act: Callable[[Any, int], Any]) -> None:
        super().__init__()

        def called(number: Any = None, logs: Any = None) -> None:
            act(self.model, number if isinstance(number, int) else 0)

        setattr(self, hook, called)


def dense(optimizer: Any = None, *middle: Any, hidden: Any = None, loss: Any = LOSS, **compiled: Any) -> Any:
    keras.utils.set_random_seed(3)
    hidden = hidden or keras.layers.Dense(5, "tanh", name="hidden")
    layers = [keras.Input((6,)), hidden, *middle, keras.layers.Dense(3, "softmax", name="out")]
    made = keras.Sequential(layers)
    made.compile(optimizer or keras.optimizers.SGD(0.3), loss, **compiled)
    return made


def _state(model: Any) -> list[Any]:
    return [variable.numpy() for variable in (*model.weights, *model.optimizer.variables)]


# -- the programs ------------------------------------------------------------------------------------------------------


def unfrozen_at_the_end(fit: Fit) -> list[Any]:
    def act(model: Any, _: int) -> None:
        model.layers[0].trainable = True

    model = dense()
    model.layers[0].trainable = False
    model.compile(keras.optimizers.SGD(0.3), LOSS)
    fit(model, callbacks=[Acts("on_train_end", act)])
    flags = [layer.trainable for layer in model.layers]
    model.compile(keras.optimizers.SGD(0.3), LOSS)
    fit(model)
    return [flags, *_state(model)]


def frozen_in_the_second_epoch(fit: Fit) -> list[Any]:
    def act(model: Any, epoch: int) -> None:
        model.layers[0].trainable = epoch < 1

    model = dense()
    fit(model, callbacks=[Acts("on_epoch_begin", act)])
    return [[layer.trainable for layer in model.layers], *_state(model)]


def momentum(fit: Fit) -> list[Any]:
    def act(model: Any, _: int) -> None:
        model.optimizer.momentum = 0.2
        model.optimizer.weight_decay = 0.1

    model = dense(keras.optimizers.SGD(0.3, momentum=0.9, weight_decay=0.01))
    fit(model, callbacks=[Acts("on_train_begin", act)])
    return [model.optimizer.momentum, model.optimizer.weight_decay, *_state(model)]


def decay_by_epoch(fit: Fit) -> list[Any]:
    """In a graph, only the value in the first epoch has an effect."""

    def act(model: Any, epoch: int) -> None:
        model.optimizer.weight_decay = 0.1 * (epoch + 1)

    model = dense(keras.optimizers.AdamW(0.05))
    fit(model, callbacks=[Acts("on_epoch_begin", act)])
    return [model.optimizer.weight_decay, *_state(model)]


def decay_by_epoch_eagerly(fit: Fit) -> list[Any]:
    def act(model: Any, epoch: int) -> None:
        model.optimizer.weight_decay = 0.1 * (epoch + 1)
        model.optimizer.beta_1 = 0.5

    model = dense(keras.optimizers.AdamW(0.05), run_eagerly=True)
    fit(model, callbacks=[Acts("on_epoch_begin", act)])
    return [model.optimizer.weight_decay, *_state(model)]


def clipped_by_batch(fit: Fit) -> list[Any]:
    def act(model: Any, batch: int) -> None:
        model.optimizer.clipnorm = 0.02 * (batch + 1)

    model = dense(keras.optimizers.SGD(0.5, clipnorm=1.0), run_eagerly=True)
    fit(model, callbacks=[Acts("on_train_batch_begin", act)])
    return [model.optimizer.clipnorm, *_state(model)]


def clipped_before_the_first_batch(fit: Fit) -> list[Any]:
    def act(model: Any, batch: int) -> None:
        model.optimizer.clipvalue = 0.02

    model = dense(keras.optimizers.SGD(0.5, clipvalue=1.0))
    fit(model, callbacks=[Acts("on_train_batch_begin", act)])
    return _state(model)


def schedule(fit: Fit) -> list[Any]:
    def act(model: Any, _: int) -> None:
        model.optimizer._learning_rate.decay_rate = 0.2

    model = dense(keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.5, 5, 0.9)))
    fit(model, callbacks=[Acts("on_train_begin", act)])
    return [model.optimizer._learning_rate.decay_rate, *_state(model)]


def slope(fit: Fit) -> list[Any]:
    def act(model: Any, _: int) -> None:
        model.layers[1].negative_slope = 0.9

    model = dense(None, keras.layers.LeakyReLU(0.1))
    fit(model, callbacks=[Acts("on_train_begin", act)])
    return [model.layers[1].negative_slope, *_state(model)]


def regularizer(fit: Fit) -> list[Any]:
    def act(model: Any, _: int) -> None:
        model.layers[0].kernel_regularizer.l2 = np.float32(0.5)

    keras.utils.set_random_seed(3)
    model = dense(hidden=keras.layers.Dense(5, "tanh", name="hidden", kernel_regularizer=keras.regularizers.L2(0.01)))
    fit(model, callbacks=[Acts("on_train_begin", act)])
    return [model.layers[0].kernel_regularizer.l2, *_state(model)]


def constraint(fit: Fit) -> list[Any]:
    def act(model: Any, epoch: int) -> None:
        model.layers[0].kernel_constraint.max_value = 0.5 + 0.1 * epoch

    keras.utils.set_random_seed(3)
    made = keras.layers.Dense(5, "tanh", name="hidden", kernel_constraint=keras.constraints.MaxNorm(3.0))
    model = dense(hidden=made, run_eagerly=True)
    fit(model, callbacks=[Acts("on_epoch_begin", act)])
    return [model.layers[0].kernel_constraint.max_value, *_state(model)]


class Scaled(keras.losses.Loss):
    def __init__(self, scale: float = 1.0, **options: Any) -> None:
        super().__init__(**options)
        self.scale = scale

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return self.scale * keras.losses.sparse_categorical_crossentropy(y_true, y_pred)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale": self.scale}


def loss_object(fit: Fit) -> list[Any]:
    def act(model: Any, _: int) -> None:
        model.loss.scale = 0.2

    model = dense(loss=Scaled())
    fit(model, callbacks=[Acts("on_train_begin", act)])
    return [model.loss.scale, *_state(model)]


class Settings:
    def __init__(self) -> None:
        self.beta = 0.0


class Annealed(keras.Model):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.hidden, self.out = keras.layers.Dense(5, "tanh"), keras.layers.Dense(3, "softmax")
        self.beta = 0.0
        self.settings = Settings()

    def call(self, x: Any) -> Any:
        return self.out(self.hidden(x))

    def train_step(self, data: Any) -> Any:
        import tensorflow as tf

        x, y = data
        with tf.GradientTape() as tape:
            outputs = self(x, training=True)
            beta = self.beta + self.settings.beta
            loss = self.compute_loss(x, y, outputs) + beta * tf.reduce_mean(outputs[:, 0] ** 2)
        weights = self.trainable_variables
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        return {"loss": loss}


def _annealed(**compiled: Any) -> Any:
    keras.utils.set_random_seed(3)
    model = Annealed()
    model(np.zeros((1, 6), "float32"))
    model.compile(keras.optimizers.SGD(0.3), LOSS, **compiled)
    return model


def model_by_epoch_eagerly(fit: Fit) -> list[Any]:
    def act(model: Any, epoch: int) -> None:
        model.beta = 2.0 * epoch

    model = _annealed(run_eagerly=True)
    fit(model, callbacks=[Acts("on_epoch_begin", act)])
    return [model.beta, *_state(model)]


def own_object(fit: Fit) -> list[Any]:
    def act(model: Any, _: int) -> None:
        model.settings.beta = 3.0

    model = _annealed()
    fit(model, callbacks=[Acts("on_train_begin", act)])
    return [model.settings.beta, *_state(model)]


def frozen_at_the_beginning(fit: Fit) -> list[Any]:
    def act(model: Any, _: int) -> None:
        model.layers[0].trainable = False

    model = dense()
    fit(model, callbacks=[Acts("on_train_begin", act)])
    return [[layer.trainable for layer in model.layers], *_state(model)]


PROGRAMS: dict[str, Callable[[Fit], list[Any]]] = {
    "momentum": momentum,
    "decay by epoch": decay_by_epoch,
    "decay by epoch, eagerly": decay_by_epoch_eagerly,
    "clipped by batch, eagerly": clipped_by_batch,
    "clipped before the first batch": clipped_before_the_first_batch,
    "schedule": schedule,
    "slope": slope,
    "regularizer": regularizer,
    "constraint, eagerly": constraint,
    "loss object": loss_object,
    "model by epoch, eagerly": model_by_epoch_eagerly,
    "own object": own_object,
    "frozen at the beginning": frozen_at_the_beginning,
    "unfrozen at the end": unfrozen_at_the_end,
    "frozen in the second epoch": frozen_in_the_second_epoch,
}
SERIAL = (
    *(
        "slope",
        "decay by epoch, eagerly",
        "clipped by batch, eagerly",
        "constraint, eagerly",
        "model by epoch, eagerly",
    ),
    *("own object", "frozen at the beginning"),
)
"""The programs that a pipeline does not train."""


# -- comparing them ----------------------------------------------------------------------------------------------------


def _plain(ctx: FakeContext) -> dict[str, list[Any]]:
    def fit(model: Any, **arguments: Any) -> None:
        model.fit(*digits(26), verbose=0, **{**ARGUMENTS, **arguments})

    return {name: program(fit) for name, program in PROGRAMS.items()}


@pytest.fixture(scope="module")
def expected() -> dict[str, list[Any]]:
    trained: dict[str, list[Any]] = run_gang(1, _plain)[0]
    return trained


@cache
def _trained(strategy: str) -> dict[str, Any]:
    chosen, size, servers = STRATEGIES[strategy]
    names = [name for name in PROGRAMS if strategy != "pipeline" or name not in SERIAL]

    def program(ctx: FakeContext) -> dict[str, Any]:
        if isinstance(chosen, InGraph):
            devices(2)
        found: dict[str, Any] = {}
        for name in names:
            count = 0

            def fit(model: Any, name: str = name, **arguments: Any) -> None:
                nonlocal count
                count += 1
                given = {**ARGUMENTS, **arguments, "strategy": chosen}
                fitted(ctx, f"{name} {count}", model, *digits(26), **given)

            try:
                found[name] = PROGRAMS[name](fit)
            except Exception as error:
                raise RuntimeError(f"in {name!r}: {error}") from error
        return found

    received: dict[str, Any] = run_gang(size, program, servers=servers)[0]
    return received


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_it_has_the_effect_that_it_has_in_one_process(strategy: str, expected: dict[str, list[Any]]) -> None:
    different = []
    for name, received in _trained(strategy).items():
        for number, (ours, theirs) in enumerate(zip(received, expected[name], strict=True)):
            if not np.allclose(np.asarray(ours, float), np.asarray(theirs, float), rtol=1e-4, atol=1e-5):
                different.append(f"{name}, value {number}: {ours} instead of {theirs}")
    assert not different, "\n".join(different)


def test_a_pipeline_refuses_to_freeze_layers_that_it_has_prepared() -> None:
    chosen, size, _ = STRATEGIES["pipeline"]

    def act(model: Any, _: int) -> None:
        model.layers[0].trainable = False

    def program(ctx: FakeContext) -> None:
        fitted(ctx, "frozen", dense(), *digits(26), strategy=chosen, callbacks=[Acts("on_train_begin", act)])

    with pytest.raises(Exception, match="must not change which weights are trainable before the first step"):
        run_gang(size, program)
