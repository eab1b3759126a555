"""Models with steps that change weights without the optimizer, and callbacks that change weights."""

from __future__ import annotations

from typing import Any

from .cases import _VALIDATION, Case, _data, dense


def _optimizer(kind: str, **arguments: Any) -> Any:
    import keras

    return getattr(keras.optimizers, kind)(**arguments)


def _spectral(**compiled: Any) -> Any:
    import keras

    layers = keras.layers
    hidden = layers.SpectralNormalization(layers.Dense(8, activation="tanh"))
    model = keras.Sequential([keras.Input((6,)), hidden, layers.Dense(3, activation="softmax")])
    model.compile(
        _optimizer("SGD", learning_rate=0.1), "sparse_categorical_crossentropy", metrics=["accuracy"], **compiled
    )
    return model


def decaying(by_example: bool = False, **compiled: Any) -> Any:
    """Return a model in which a layer shrinks its weights in its call, and ``train_step`` shrinks all weights after the
    update. Both happen once per step.
    """
    import keras

    class Decaying(keras.layers.Dense):
        def call(self, x: Any) -> Any:
            self.kernel.assign(self.kernel * (0.95 + 0.01 * keras.ops.mean(x) if by_example else 0.95))
            return super().call(x)

    class Model(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            logs = super().train_step(data)
            for weight in self.trainable_variables:
                weight.assign(weight * 0.97)
            return logs

    model = Model([keras.Input((6,)), Decaying(8, activation="tanh"), keras.layers.Dense(3, activation="softmax")])
    model.compile(_optimizer("Adam", learning_rate=0.1), "sparse_categorical_crossentropy", **compiled)
    return model


def _averaged(frequency: int | None = None) -> Any:
    arguments = {"use_ema": True, "ema_momentum": 0.7, "ema_overwrite_frequency": frequency}
    return dense(_optimizer("Adam", learning_rate=0.1, **arguments))


def _swapping() -> list[Any]:
    import keras

    return [keras.callbacks.SwapEMAWeights()]


def _stopping() -> list[Any]:
    import keras

    stop = keras.callbacks.EarlyStopping(monitor="val_loss", patience=0, min_delta=0.5, restore_best_weights=True)
    return [stop]


def _penalized() -> Any:
    """Return a model with a loss on the outputs of a layer, multiplied by a weight that is not trained."""
    import keras

    class Penalty(keras.layers.Layer):
        def build(self, _: Any) -> None:
            self.rate = self.add_weight(shape=(), initializer="zeros", trainable=False, name="rate")

        def call(self, x: Any) -> Any:
            self.add_loss(self.rate * keras.ops.mean(keras.ops.square(x)))
            return x

    layers = [keras.Input((6,)), keras.layers.Dense(8, activation="tanh"), Penalty(), keras.layers.Dense(3, "softmax")]
    model = keras.Sequential(layers)
    model.compile(_optimizer("SGD", learning_rate=0.5, momentum=0.9), "sparse_categorical_crossentropy")
    return model


def _rising() -> list[Any]:
    """Return a callback that increases the penalty with each batch."""
    import keras

    class Rising(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.model.layers[1].rate.assign(0.5 + 0.5 * batch)

    return [Rising()]


def _clipping() -> list[Any]:
    """Return a callback that clips a kernel and increases the penalty after each batch."""
    import keras

    def clip(batch: int, logs: Any) -> None:
        kernel, rate = clipping.model.layers[0].kernel, clipping.model.layers[1].rate
        kernel.assign(keras.ops.clip(kernel, -0.2, 0.2))
        rate.assign(0.5 + 0.5 * batch)

    clipping = keras.callbacks.LambdaCallback(on_train_batch_end=clip)
    return [clipping]


def _resetting() -> list[Any]:
    """Within an epoch, the metrics are reset: in the first by ``evaluate``, which also counts, then by itself."""
    import keras

    class Resetting(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.evaluates = epoch == 0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 1 and self.evaluates:
                self.model.evaluate(*_VALIDATION, verbose=0)
            elif batch == 1:
                self.model.reset_metrics()

    return [Resetting()]


# With 25 examples in batches of 12, at least one task has no examples in the last batch.
OUTSIDE_CASES: dict[str, Case] = {
    "spectral norm": Case(_spectral, _data(examples=25, validation_data=_VALIDATION)),
    "spectral norm, several steps at once": Case(lambda: _spectral(steps_per_execution=2), _data()),
    "decay": Case(decaying, _data(examples=25)),
    "decay, run eagerly": Case(lambda: decaying(run_eagerly=True), _data(examples=25, epochs=1)),
}
CALLBACK_CASES: dict[str, Case] = {
    "averages swapped for validation": Case(_averaged, _data(validation_data=_VALIDATION), callbacks=_swapping),
    "averages, then the best weights": Case(
        lambda: _averaged(2), _data(epochs=4, validation_data=_VALIDATION), callbacks=_stopping
    ),
    "a weight that rises before each batch": Case(_penalized, _data(), callbacks=_rising),
    "weights that are set after each batch": Case(_penalized, _data(), callbacks=_clipping),
    "metrics that are reset after a batch": Case(_averaged, _data(), callbacks=_resetting),
}
