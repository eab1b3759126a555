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


PROGRAMS: dict[str, Callable[[Fit], list[Any]]] = {
    "unfrozen at the end": unfrozen_at_the_end,
    "frozen in the second epoch": frozen_in_the_second_epoch,
}
SERIAL: tuple[str, ...] = ()
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
