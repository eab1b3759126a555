"""Models whose layers keep results of a call: added losses, activity regularizers, tensors in attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import Case, digits


def _compiled(model: Any, reduction: str = "sum", rate: float = 0.02) -> Any:
    import keras

    model.compile(keras.optimizers.SGD(rate), keras.losses.SparseCategoricalCrossentropy(reduction=reduction))
    return model


def _regularized(reduction: str = "sum", rate: float = 0.02) -> Any:
    import keras

    keras.utils.set_random_seed(7)
    layers = keras.layers
    hidden = layers.Dense(8, activation="tanh", activity_regularizer=keras.regularizers.L2(0.5))
    model = keras.Sequential([keras.Input((6,)), hidden, layers.Dense(3, activation="softmax")])
    return _compiled(model, reduction, rate)


def _masked() -> Any:
    import keras

    keras.utils.set_random_seed(7)
    layers = keras.layers
    hidden = layers.LSTM(4, return_sequences=True, activity_regularizer=keras.regularizers.L2(0.5))
    words = layers.Embedding(9, 4, mask_zero=True)
    model = keras.Sequential([keras.Input((5,), dtype="int32"), words, hidden, layers.Dense(3, activation="softmax")])
    return _compiled(model, "sum_over_batch_size", 0.5)


def _nested() -> Any:
    """Return a model in which a layer adds a loss two models deep inside the model."""
    import keras

    class Added(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            self.add_loss(keras.ops.mean(keras.ops.square(x - 1.0)))
            return x

    class Inner(keras.Model):
        def __init__(self, **arguments: Any) -> None:
            super().__init__(**arguments)
            self.dense, self.added = keras.layers.Dense(5, activation="tanh"), Added()

        def call(self, x: Any) -> Any:
            return self.added(self.dense(x))

    keras.utils.set_random_seed(7)
    outer = keras.Sequential([keras.Input((6,)), Inner(), keras.layers.Dense(4, activation="tanh")])
    x = keras.Input((6,))
    return _compiled(keras.Model(x, keras.layers.Dense(3, activation="softmax")(outer(x))))


def _remembering() -> Any:
    """Return a model whose loss uses tensors that a call has left in attributes of layers and of the model. They are
    used after the update, too.
    """
    import keras

    class Remembering(keras.layers.Dense):
        def call(self, x: Any) -> Any:
            self.seen = super().call(x)
            return self.seen

    class Model(keras.Model):
        def __init__(self, **arguments: Any) -> None:
            super().__init__(**arguments)
            self.hidden, self.out = Remembering(5, activation="tanh"), keras.layers.Dense(3, activation="softmax")
            self.all: list[Any] = []
            self.square: Any = None

        def call(self, x: Any) -> Any:
            if self.square is None:  # otherwise, another replica's tensor would be used
                self.square = keras.ops.square(x)
            self.all.append(keras.ops.mean(keras.ops.square(self.hidden(x))))
            return self.out(self.hidden.seen)

        def compute_loss(self, *args: Any, **arguments: Any) -> Any:
            loss = super().compute_loss(*args, **arguments)
            loss = loss + keras.ops.mean(keras.ops.square(self.hidden.seen)) + self.all.pop()
            return loss + keras.ops.mean(keras.ops.mean(self.square, 1) * keras.ops.mean(self.hidden.seen, 1))

        def train_step(self, data: Any) -> Any:
            self.square = None
            logs = super().train_step(data)
            return {**logs, "squares": self.left()}

        def left(self) -> Any:
            square, self.square = self.square, None
            return keras.ops.mean(square)

    keras.utils.set_random_seed(7)
    return _compiled(Model())


def _data(**more: Any) -> dict[str, Any]:
    x, y = digits(50)
    return {"x": x, "y": y, "batch_size": 12, "epochs": 2, **more}


def _sentences() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 9, (50, 5))
    x[:, 3:] *= rng.integers(0, 2, (50, 2))
    return {"x": x, "y": x % 3, "batch_size": 12, "epochs": 2}


ADDED_LOSS_CASES: dict[str, Case] = {
    "activity regularizer, sum": Case(_regularized, _data()),
    "activity regularizer, sum, run eagerly": Case(lambda: _eager(_regularized()), _data(epochs=1)),
    "activity regularizer, mean of sample weights": Case(
        lambda: _regularized("mean_with_sample_weight", 0.2), _data(sample_weight=np.linspace(0.1, 2, 50))
    ),
    "activity regularizer, mask": Case(_masked, _sentences()),
    "loss added in an inner model": Case(_nested, _data(), by_function=True),
    "tensors in attributes": Case(_remembering, _data(epochs=1, batch_size=10), by_function=True),
}


def _eager(model: Any) -> Any:
    model.run_eagerly = True
    return model
