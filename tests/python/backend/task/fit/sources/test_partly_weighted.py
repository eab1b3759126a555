"""Tests of batches in which an output has no weights, for every form of data that allows this, against plain Keras."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...gang import FakeContext, run_gang
from ..cases import digits
from ..comparison import fit

EXAMPLES, BATCH = 26, 6


def model() -> Any:
    import keras

    keras.utils.set_random_seed(3)
    given = keras.Input((6,))
    kind = keras.layers.Dense(3, activation="softmax", name="kind")(given)
    made = keras.Model(given, [kind, keras.layers.Dense(1, name="size")(given)])
    made.compile(keras.optimizers.SGD(0.1), ["sparse_categorical_crossentropy", "mse"])
    return made


def batches() -> Iterator[Any]:
    x, y = digits(EXAMPLES)
    weights = np.linspace(0.1, 2.0, EXAMPLES).astype("float32")
    for start in range(0, EXAMPLES, BATCH):
        chosen = slice(start, start + BATCH)
        yield x[chosen], (y[chosen], x[chosen, :1] * 2), (weights[chosen], None)


def forms() -> dict[str, Any]:
    import keras
    import tensorflow as tf

    class Batches(keras.utils.PyDataset):
        def __init__(self) -> None:
            super().__init__()
            self.held = list(batches())

        @property
        def num_batches(self) -> int:
            return len(self.held)

        def __getitem__(self, number: int) -> Any:
            return self.held[number]

    x, y = digits(EXAMPLES)
    weights = np.linspace(0.1, 2.0, EXAMPLES).astype("float32")
    whole = tf.data.Dataset.from_tensor_slices((x, (y, x[:, :1] * 2), (weights, None)))
    return {
        "a dataset": whole.batch(BATCH),
        "a shuffled dataset": whole.shuffle(EXAMPLES, seed=5).batch(BATCH),
        "a PyDataset": Batches(),
        "a function": lambda ctx: _own(whole.batch(BATCH), ctx),
        "a function, no length": lambda ctx: _own(whole.batch(BATCH).filter(lambda *batch: True), ctx),
    }


def _own(dataset: Any, ctx: Any) -> Any:
    """Return all batches on the first task, and none on the others."""
    return dataset if ctx.rank == 0 else dataset.take(0)


def alone(ctx: FakeContext) -> dict[str, Any]:
    trained = {}
    given = forms()
    given["a PyDataset"] = given["a dataset"]  # in a PyDataset, Keras does not accept None
    for name, data in given.items():
        made = model()
        made.fit(data(ctx) if callable(data) else data, epochs=2, verbose=0, shuffle=False)
        trained[name] = made.get_weights()
    return trained


def together(ctx: FakeContext) -> dict[str, Any]:
    trained = {}
    for name, data in forms().items():
        _, result = fit(ctx, name, model, data, epochs=2, shuffle=False)
        trained[name] = result and result.weights
    return trained


def test_an_output_without_weights_is_trained_as_in_keras() -> None:
    expected, received = run_gang(1, alone)[0], run_gang(2, together)[0]
    for name, weights in expected.items():
        for ours, theirs in zip(received[name], weights, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=2e-6, err_msg=name)
