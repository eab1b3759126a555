"""Models with code that would behave differently in a session's graph than in one process in a ``tf.function``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cases import Case, _data, _optimizer, dense, digits
from ..strategy_cases import placed_words, sentences


def _compiled(*layers: Any, optimizer: Any = "sgd", loss: Any = "sparse_categorical_crossentropy", **more: Any) -> Any:
    import keras

    model = keras.Sequential([keras.Input((6,)), *layers, keras.layers.Dense(3, activation="softmax")])
    model.compile(optimizer, loss, **more)
    return model


def as_in_a_function() -> Any:
    """Return a model that uses equality, conditions, scopes, functions, captures and derivatives in layers, a loss and
    metrics.
    """
    import keras
    import tensorflow as tf

    @tf.custom_gradient
    def doubled_back(x: Any) -> Any:
        return x * 1.0, lambda slope: slope * tf.where(tf.cast(x > 0, tf.int32) == 1, 2.0, 1.0)

    class Equal(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            kinds = tf.cast(x > 0, tf.int32)
            x = keras.ops.cond(tf.shape(x)[1] == 6, lambda: x * 2.0, lambda: x * 0.0)
            return doubled_back(x * tf.where(kinds == 1, 2.0, 1.0) * tf.where(kinds != 0, 1.5, 1.0))

    class Traced(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.kernel = self.add_weight(shape=(6, 6))
            self.held = tf.constant([1.0, 2.0, 3.0, 1.0, 2.0, 3.0])
            self.scale = tf.Variable(0.5)

        @tf.function
        def call(self, x: Any) -> Any:
            with tf.init_scope():
                shift = float(tf.constant(0.25).numpy())
            if tf.shape(x)[1] == 6:
                x = tf.matmul(x, self.kernel) * self.held * self.scale
            return x + shift

    class Slope(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                z = tf.reduce_sum(tf.tanh(x) ** 2)
            signs = tf.numpy_function(lambda v: np.sign(v).astype("float32"), [x], tf.float32)
            return tape.gradient(z, x) + 0.1 * tf.ensure_shape(signs, x.shape)

    class Hits(keras.metrics.Metric):
        def __init__(self, name: str = "hits", **more: Any) -> None:
            super().__init__(name=name, **more)
            self.hits = self.add_weight(shape=(3,), initializer="zeros")
            self.seen = tf.Variable(0.0)

        def update_state(self, y: Any, predicted: Any, sample_weight: Any = None) -> None:
            hit = tf.cast(tf.reshape(y, [-1]), tf.int64) == tf.argmax(predicted, -1)
            self.hits.assign_add(tf.math.unsorted_segment_sum(tf.cast(hit, tf.float32), tf.reshape(y, [-1]), 3))
            self.seen.assign_add(tf.cast(tf.size(hit), tf.float32))

        def result(self) -> Any:
            return {"hits": tf.reduce_sum(self.hits) / self.seen, "hits_of_first": self.hits[0]}

        def reset_state(self) -> None:
            self.hits.assign(tf.zeros([3]))
            self.seen.assign(0.0)

    def loss(y: Any, predicted: Any) -> Any:
        right = tf.one_hot(tf.cast(tf.reshape(y, [-1]), tf.int32), 3)
        return tf.reduce_sum(tf.where(right == 1.0, -tf.math.log(predicted + 1e-6), 0.1 * predicted), -1)

    return _compiled(Equal(), Traced(), Slope(), loss=loss, metrics=[Hits()])


def assigning() -> Any:
    """Return a model with kernels that must be assigned once per step, not per microbatch, and a counter of steps."""
    import keras

    class Normed(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.kernel = self.add_weight(shape=(6, 6), regularizer="l2")
            self.steps = self.add_weight(shape=(), initializer="zeros", trainable=False)

        def call(self, x: Any) -> Any:
            kernel = self.kernel / keras.ops.sqrt(keras.ops.sum(self.kernel**2, 0))
            self.steps.assign_add(1.0)
            self.kernel.assign(kernel)
            return x @ self.kernel + 0.1 * x @ kernel

    spectral = keras.layers.SpectralNormalization(keras.layers.Dense(8))
    optimizer = _optimizer("Adam", learning_rate=0.02, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2)
    return _compiled(Normed(), spectral, optimizer=optimizer)


def positions() -> Any:
    """Return a transformer block on words and their positions. The rows of positions do not depend on the batch."""
    import keras

    layers = keras.layers

    class Positions(keras.layers.Layer):
        def __init__(self, **more: Any) -> None:
            super().__init__(**more)
            self.table = layers.Embedding(5, 4)

        def build(self, shape: Any) -> None:
            self.table.build(None)

        def call(self, x: Any) -> Any:
            return x + self.table(keras.ops.arange(5))

    words = keras.Input((5,), dtype="int32")
    x = Positions()(layers.Embedding(9, 4)(words))
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 2, use_bias=False)(x, x))
    model = keras.Model(words, layers.Dense(3, activation="softmax")(layers.GlobalAveragePooling1D()(x)))
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def stateful() -> Any:
    import keras

    layers = keras.layers
    inputs = keras.Input(batch_shape=(12, 3, 2))
    x = layers.LSTM(4, stateful=True, return_sequences=True)(inputs)
    x = layers.Bidirectional(layers.GRU(3, stateful=True))(x)
    model = keras.Model(inputs, layers.Dense(3, activation="softmax")(x))
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def _sequences() -> dict[str, Any]:
    x = np.random.default_rng(5).normal(size=(36, 3, 2)).astype("float32")
    y = np.arange(36) % 3
    return {"x": x, "y": y, "batch_size": 12, "epochs": 2, "validation_data": (x[:12], y[:12])}


def own_steps() -> Any:
    """Return a model with custom steps, random numbers, moving averages and metrics that are not compiled."""
    import keras
    import tensorflow as tf

    class Own(keras.Sequential):
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            self.size = keras.metrics.Mean(name="size")

        @property
        def metrics(self) -> list[Any]:
            return [*super().metrics, self.size]

        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                predicted = self(x, training=True)
                loss = self.optimizer.scale_loss(self.compute_loss(y=y, y_pred=predicted))
            gradients = tape.gradient(loss, self.trainable_variables)
            norm = tf.linalg.global_norm(gradients)
            self.size.update_state(norm)
            gradients = [tf.where(norm == 0.0, g, g / norm) for g in gradients]
            self.optimizer.apply(gradients, self.trainable_variables)
            return {**self.compute_metrics(x, y, predicted), "norm": norm}

        def test_step(self, data: Any) -> Any:
            x, _ = data
            self.size.update_state(tf.reduce_max(self(x, training=False)))
            return {"size": self.size.result()}

    layers = keras.layers
    model = Own(
        [keras.Input((6,)), layers.Dense(5), layers.BatchNormalization(), layers.Dropout(0.3, seed=3), layers.Dense(3)]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(_optimizer("SGD", learning_rate=0.1, momentum=0.5), loss, metrics=["accuracy"])
    return model


def _averaged(**more: Any) -> Any:
    return dense(_optimizer("SGD", learning_rate=0.1, use_ema=True, ema_momentum=0.5, **more))


_X, _Y = digits(50)
_WORDS = np.random.default_rng(1).integers(0, 9, size=(26, 5))
_WORDS[:, 0] = 1

GRAPH_CASES: dict[str, Case] = {
    "as in a function": Case(as_in_a_function, _data(validation_data=digits(7, seed=3)), tolerance=5e-6),
    "weights assigned in a call": Case(assigning, _data(validation_data=digits(7, seed=3)), tolerance=2e-5),
    "rows of positions": Case(
        positions, {"x": _WORDS, "y": _WORDS[:, 1] % 3, "batch_size": 8, "epochs": 2}, tolerance=2e-5
    ),
    "rows of distinct words": Case(lambda: placed_words("adam", "distinct words"), sentences(), tolerance=2e-5),
    "stateful RNNs": Case(stateful, _sequences(), tolerance=2e-5),
    "own train_step and test_step": Case(own_steps, _data(validation_data=digits(7, seed=3))),
    "probabilities of nearly zero": Case(
        _compiled, {"x": _X * 100, "y": _Y, "batch_size": 12, "epochs": 2}, tolerance=2e-5
    ),
    "average written in each step": Case(lambda: _averaged(ema_overwrite_frequency=1), _data(epochs=1)),
    "average written in each third": Case(lambda: _averaged(ema_overwrite_frequency=3), _data()),
    "gradients and an average of them": Case(
        lambda: _averaged(ema_overwrite_frequency=2, gradient_accumulation_steps=3, global_clipnorm=0.3), _data()
    ),
}
