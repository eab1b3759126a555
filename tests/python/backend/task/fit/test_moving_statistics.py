"""Tests of statistics that tasks estimate from their own examples and average at the end of an epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jupyter_dtf.schema.strategy import ParameterServer

from ..gang import FakeContext, run_gang
from .cases import digits
from .comparison import fit


def normalized() -> Any:
    """Return a model with all kinds of non-trainable weights, including the scalar of an adapted ``Normalization``."""
    import keras

    keras.utils.set_random_seed(1)
    layers = keras.layers
    adapted = layers.Normalization()
    adapted.adapt(digits(48)[0])
    batch = layers.BatchNormalization(momentum=0.9)
    model = keras.Sequential([keras.Input((6,)), adapted, batch, layers.Dense(3)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


@pytest.mark.parametrize("servers", [0, 1])
def test_scalars_are_averaged_with_the_others(servers: int) -> None:
    """With equal shares, the mean of the tasks' moving means is that of one process."""
    x = digits(48)[0]
    data = {"x": x, "y": x[:, :3].copy(), "batch_size": 12, "epochs": 2, "shuffle": False}

    def program(ctx: FakeContext) -> Any:
        strategy = {"strategy": ParameterServer(sync=True)} if servers else {}
        _, result = fit(ctx, "scalars", normalized(), **data, **strategy)
        return result and result.weights

    def alone(ctx: FakeContext) -> Any:
        model = normalized()
        model.fit(**data, verbose=0)
        return [(w.path, w.numpy()) for w in model.weights]

    (expected,) = run_gang(1, alone)
    received = run_gang(2 + servers, program, servers=servers)[0]
    assert [np.shape(w) for w in received] == [np.shape(w) for _, w in expected]
    for ours, (path, theirs) in zip(received, expected, strict=True):
        if path.startswith("normalization/") or path.endswith("moving_mean"):
            np.testing.assert_allclose(ours, theirs, atol=1e-5, err_msg=path)


def shifted(eagerly: bool = False) -> Any:
    import keras

    model = keras.Sequential([keras.Input((6,)), keras.layers.BatchNormalization(momentum=0.9)])
    model.compile(keras.optimizers.SGD(0.0), "mse", run_eagerly=eagerly)
    return model


def sorted_examples() -> Any:
    """Return five batches of 12, each with its low values first, and a last batch with a single example."""
    x = digits(61)[0]
    x[:60] += np.tile(np.repeat([-5, 5], 6), 5).astype("float32")[:, None]
    x[60] += 5
    return x


@pytest.mark.parametrize("servers", [0, 1])
def test_a_task_without_examples_keeps_its_own(servers: int) -> None:
    x = sorted_examples()

    def program(ctx: FakeContext) -> Any:
        strategy = {"strategy": ParameterServer(sync=True)} if servers else {}
        received = []
        for name, eagerly, examples, batch in (
            ("graph", False, 61, 12),
            ("eager", True, 61, 12),
            ("ones", False, 5, 1),
        ):
            data = {"x": x[:examples], "y": x[:examples], "batch_size": batch, "epochs": 1, "shuffle": False}
            _, result = fit(ctx, name, shifted(eagerly), **data, **strategy)
            received.append(result and result.weights[2])
        return received

    graph, eager, ones = run_gang(2 + servers, program, servers=servers)[0]
    own = np.zeros((2, 6))
    for batch in x[:60].reshape(5, 2, 6, 6):
        own = 0.9 * own + 0.1 * batch.mean(1)
    own[1] = 0.9 * own[1] + 0.1 * x[60]  # the first task gets no share of a single example
    np.testing.assert_allclose(graph, own.mean(0), atol=1e-5)
    np.testing.assert_allclose(eager, own.mean(0), atol=1e-5)
    one = np.zeros(6)
    for example in x[:5]:
        one = 0.9 * one + 0.1 * example
    np.testing.assert_allclose(ones, one, atol=1e-5)  # as in one process, while all tasks have equal statistics
