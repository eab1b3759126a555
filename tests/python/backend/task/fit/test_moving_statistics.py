"""What tasks estimate from their own examples, and average at the end of an epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jupyter_dtf.schema.strategy import ParameterServer

from ..gang import FakeContext, run_gang
from .cases import digits
from .comparison import fit


def normalized() -> Any:
    """A model of all kinds of weights that are not trained, of which an adapted Normalization has a scalar one."""
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
    """Equal shares: the mean of the tasks' moving means is that of one process."""
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
