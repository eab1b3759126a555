"""Tests that one or two workers of a server train as one process does, whatever the callbacks change."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from jupyter_dtf.schema.strategy import ParameterServer

from ...gang import FakeContext, run_gang
from ..cases import digits
from ..comparison import fit


def changing(hook: str, optimizers: bool = False) -> Any:
    """Return a callback that halves a trained weight, or the optimizer's first slot, in the given hook."""

    class Changing(keras.callbacks.Callback):
        def change(self, *_: Any) -> None:
            variables = self.model.optimizer.variables[2:] if optimizers else self.model.trainable_variables
            variables[0].assign(0.5 * variables[0])

    setattr(Changing, hook, lambda self, *_, **__: self.change())
    return Changing()


CASES = [
    ("on_train_begin", False),
    ("on_epoch_begin", False),
    ("on_epoch_end", False),
    ("on_train_batch_end", False),
    ("on_epoch_begin", True),
]


def model() -> Any:
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Dense(8, "tanh"), keras.layers.Dense(3, "softmax")]
    made = keras.Sequential([keras.Input((6,)), *layers])
    made.compile(keras.optimizers.Adam(0.05), "sparse_categorical_crossentropy")
    made.optimizer.build(made.trainable_variables)
    return made


ARGUMENTS: dict[str, Any] = {"batch_size": 8, "epochs": 3, "shuffle": False}


@pytest.mark.parametrize("workers", [1, 2])
def test_what_callbacks_change_reaches_the_server(workers: int) -> None:
    x, y = digits(24)

    def program(ctx: FakeContext) -> Any:
        found = []
        for number, (hook, optimizers) in enumerate(CASES):
            callbacks = [changing(hook, optimizers)]
            strategy = ParameterServer(sync=True)
            _, result = fit(ctx, str(number), model(), x, y, callbacks=callbacks, strategy=strategy, **ARGUMENTS)
            found.append(result and result.weights)
        return found

    found = run_gang(workers + 1, program, servers=1)[0]
    for (hook, optimizers), weights in zip(CASES, found, strict=True):
        plain = model()
        plain.fit(x, y, verbose=0, callbacks=[changing(hook, optimizers)], **ARGUMENTS)
        for ours, theirs in zip(weights, plain.get_weights(), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5, err_msg=f"{hook}, {optimizers}")
