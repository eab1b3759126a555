"""Rows for whole models, as people write them. The digits are pictures, sequences of rows, or words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import data
from .rows import Trial


def _keras() -> Any:
    import keras

    keras.utils.set_random_seed(7)
    return keras


def _classifier(model: Any, optimizer: Any = "adam", **more: Any) -> Any:
    """Compile a model whose outputs are the logits of classes, and return it."""
    import keras

    if optimizer == "adam":
        optimizer = keras.optimizers.Adam(0.01, epsilon=1e-4)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    more.setdefault("metrics", ["accuracy"])
    model.compile(optimizer, loss, **more)
    return model


def _sequential(*layers: Any, shape: tuple[int, ...] = (8, 8, 1), dtype: str = "float32") -> Any:
    import keras

    return keras.Sequential([keras.Input(shape, dtype=dtype), *layers, keras.layers.Dense(data.CLASSES)])


# -- pictures ----------------------------------------------------------------------------------------------------------


def cnn() -> Any:
    layers = _keras().layers
    return _classifier(
        _sequential(
            layers.Conv2D(4, 3, activation="relu"), layers.MaxPooling2D(), layers.Conv2D(6, 2), layers.ReLU(),
            layers.Flatten(),
        )
    )  # fmt: skip


def _block(x: Any, filters: int, norm: Callable[[], Any]) -> Any:
    layers = _keras().layers
    y = layers.ReLU()(norm()(layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)))
    y = norm()(layers.Conv2D(filters, 3, padding="same", use_bias=False)(y))
    return layers.ReLU()(layers.Add()([y, layers.Conv2D(filters, 1)(x)]))


def _resnet(norm: Callable[[], Any]) -> Any:
    import keras

    keras.utils.set_random_seed(7)
    x = keras.Input((8, 8, 1))
    y = _block(_block(x, 4, norm), 6, norm)
    y = keras.layers.Dense(data.CLASSES)(keras.layers.GlobalAveragePooling2D()(y))
    return _classifier(keras.Model(x, y), keras.optimizers.SGD(0.05, momentum=0.9))


def resnet() -> Any:
    return _resnet(lambda: _keras().layers.GroupNormalization(2))


def resnet_batch_normalization() -> Any:
    return _resnet(_keras().layers.BatchNormalization)


def unet() -> Any:
    import keras

    keras.utils.set_random_seed(7)
    layers = keras.layers
    x = keras.Input((8, 8, 1))
    down = layers.Conv2D(4, 3, padding="same", activation="relu")(x)
    low = layers.Conv2D(6, 3, padding="same", activation="relu")(layers.MaxPooling2D()(down))
    up = layers.Concatenate()([layers.Conv2DTranspose(4, 2, 2)(low), down])
    model = keras.Model(x, layers.Conv2D(1, 1, activation="sigmoid")(up))
    model.compile(keras.optimizers.Adam(0.01, epsilon=1e-4), "binary_crossentropy", metrics=["mae"])
    return model


def mobilenet() -> Any:
    layers = _keras().layers
    return _classifier(
        _sequential(
            layers.Conv2D(4, 3, activation="relu6"), layers.DepthwiseConv2D(3, activation="relu6"),
            layers.SeparableConv2D(5, 2), layers.GlobalAveragePooling2D(),
        )
    )  # fmt: skip


def film() -> Any:
    layers = _keras().layers
    return _classifier(
        _sequential(
            layers.TimeDistributed(layers.Conv2D(3, 3, activation="relu")), layers.ConvLSTM2D(2, 3),
            layers.Flatten(), shape=(3, 8, 8, 1),
        )
    )  # fmt: skip


def frozen() -> Any:
    import keras

    keras.utils.set_random_seed(7)
    layers = keras.layers
    base = keras.Sequential([keras.Input((64,)), layers.Dense(12, activation="relu"), layers.BatchNormalization()])
    base.trainable = False
    x = keras.Input((64,))
    return _classifier(keras.Model(x, layers.Dense(data.CLASSES)(base(x))))


def _augmented(layer: Any) -> Any:
    layers = _keras().layers
    return _classifier(_sequential(layer, layers.Conv2D(4, 3), layers.Flatten()))


def augmented() -> Any:
    return _augmented(_keras().layers.RandomTranslation(0.2, 0.2, seed=3))


def dropout() -> Any:
    layers = _keras().layers
    return _classifier(_sequential(layers.Flatten(), layers.Dense(9, "relu"), layers.Dropout(0.5, seed=3)))


def selu() -> Any:
    layers = _keras().layers
    dense = layers.Dense(9, activation="selu", kernel_initializer="lecun_normal")
    return _classifier(_sequential(layers.Flatten(), dense, layers.UnitNormalization(), layers.PReLU()))


def spectral() -> Any:
    layers = _keras().layers
    return _classifier(
        _sequential(layers.SpectralNormalization(layers.Conv2D(4, 3)), layers.LeakyReLU(), layers.Flatten())
    )


def dice() -> Any:
    import keras

    keras.utils.set_random_seed(7)
    x = keras.Input((8, 8, 1))
    y = keras.layers.Conv2D(1, 3, padding="same", activation="sigmoid")(x)
    model = keras.Model(x, y)
    model.compile(keras.optimizers.SGD(0.5), keras.losses.Dice(axis=(1, 2, 3)))
    return model


# -- sequences ---------------------------------------------------------------------------------------------------------


def lstm() -> Any:
    layers = _keras().layers
    return _classifier(_sequential(layers.LSTM(5, return_sequences=True), layers.LSTM(4), shape=(8, 8)))


def gru() -> Any:
    layers = _keras().layers
    return _classifier(_sequential(layers.Bidirectional(layers.GRU(4)), shape=(8, 8)))


def stateful() -> Any:
    import keras

    keras.utils.set_random_seed(7)
    x = keras.Input(batch_shape=(11, 8, 8))
    y = keras.layers.Bidirectional(keras.layers.GRU(4, stateful=True))(x)
    return _classifier(keras.Model(x, keras.layers.Dense(data.CLASSES)(y)))


def wavenet() -> Any:
    import keras

    keras.utils.set_random_seed(7)
    layers = keras.layers
    x = keras.Input((8, 8))
    y = layers.Conv1D(4, 1)(x)
    for dilation in (1, 2, 4):
        gate = layers.Conv1D(4, 2, padding="causal", dilation_rate=dilation, activation="sigmoid")(y)
        y = y + gate * layers.Conv1D(4, 2, padding="causal", dilation_rate=dilation, activation="tanh")(y)
    return _classifier(keras.Model(x, layers.Dense(data.CLASSES)(layers.Flatten()(y))))


def _positions() -> Any:
    """Return a layer that adds a row of a table for each position, as in language models."""
    import keras

    class Positions(keras.layers.Layer):
        def __init__(self, **arguments: Any) -> None:
            super().__init__(**arguments)
            self.supports_masking = True

        def build(self, shape: Any) -> None:
            self.table = keras.layers.Embedding(shape[-2], shape[-1])
            self.table.build(None)

        def call(self, x: Any) -> Any:
            return x + self.table(keras.ops.arange(keras.ops.shape(x)[-2]))

    return Positions()


def transformer() -> Any:
    """An encoder for words, with positions and a mask for the padding."""
    import keras

    keras.utils.set_random_seed(7)
    layers = keras.layers
    x = keras.Input((6,), dtype="int32")
    y = _positions()(layers.Embedding(17, 8, mask_zero=True)(x))
    y = layers.LayerNormalization()(y + layers.MultiHeadAttention(2, 4)(y, y))
    y = layers.LayerNormalization()(y + layers.Dense(8)(layers.Dense(12, activation="gelu")(y)))
    return _classifier(keras.Model(x, layers.Dense(data.CLASSES)(layers.GlobalAveragePooling1D()(y))))


def decoder() -> Any:
    """A language model, which predicts the next word from the previous ones. One table of words is used for input and
    output.
    """
    import keras

    keras.utils.set_random_seed(7)
    layers = keras.layers
    table = layers.ReversibleEmbedding(17, 8)
    x = keras.Input((6,), dtype="int32")
    y = _positions()(table(x))
    y = layers.RMSNormalization()(y + layers.MultiHeadAttention(2, 4)(y, y, use_causal_mask=True))
    return _classifier(keras.Model(x, table(y, reverse=True)))


def translator() -> Any:
    """LSTM to LSTM: the final state of the first is the initial state of the second."""
    import keras

    keras.utils.set_random_seed(7)
    layers = keras.layers
    source, target = keras.Input((8, 8), name="source"), keras.Input((6,), dtype="int32", name="target")
    _, *state = layers.LSTM(5, return_state=True)(source)
    y = layers.LSTM(5, return_sequences=True)(layers.Embedding(17, 4)(target), initial_state=state)
    return _classifier(keras.Model({"source": source, "target": target}, layers.Dense(17)(y)))


def pooled_by_attention() -> Any:
    import keras

    keras.utils.set_random_seed(7)
    layers = keras.layers
    x = keras.Input((8, 8))
    y = layers.Dense(5, activation="tanh")(x)
    weights = layers.Softmax(axis=1)(layers.Dense(1)(y))
    pooled = layers.Flatten()(layers.Dot((1, 1))([weights, y]))
    return _classifier(keras.Model(x, layers.Dense(data.CLASSES)(pooled)))


# -- words and numbers -------------------------------------------------------------------------------------------------


def normalized() -> Any:
    layers = _keras().layers
    norm = layers.Normalization()
    norm.adapt(data.flat())
    return _classifier(_sequential(norm, layers.Dense(7, activation="relu"), shape=(64,)))


def looked_up() -> Any:
    layers = _keras().layers
    lookup = layers.StringLookup(vocabulary=list(data.WORDS[:7]))
    return _classifier(_sequential(lookup, layers.Embedding(8, 4), layers.Flatten(), shape=(1,), dtype="string"))


def vectorized() -> Any:
    layers = _keras().layers
    text = layers.TextVectorization(output_sequence_length=3)
    text.adapt(data.sentences())
    return _classifier(
        _sequential(text, layers.Embedding(12, 4, mask_zero=True), layers.LSTM(4), shape=(1,), dtype="string")
    )


def features() -> Any:
    """A FeatureSpace that computes its features within the model."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(7)

    kinds = keras.utils.FeatureSpace
    space = kinds({"word": kinds.string_categorical(num_oov_indices=0), "size": kinds.float_normalized()})
    values = {"word": data.words()[:, 0], "size": data.vector()[:, 3]}
    space.adapt(tf.data.Dataset.from_tensor_slices(values).batch(11))
    encoded = space.get_encoded_features()
    return _classifier(keras.Model(space.get_inputs(), keras.layers.Dense(data.CLASSES)(encoded)))


def wide_and_deep() -> Any:
    import keras

    keras.utils.set_random_seed(7)
    layers = keras.layers
    word, numbers = keras.Input((6,), dtype="int32", name="words"), keras.Input((64,), name="numbers")
    wide = layers.CategoryEncoding(17, output_mode="count")(word)
    deep = layers.Dense(6, activation="relu")(layers.Flatten()(layers.Embedding(17, 3)(word)))
    joined = layers.Concatenate()([wide, deep, layers.Dense(5)(numbers)])
    outputs = {"kind": layers.Dense(data.CLASSES, name="kind")(joined), "size": layers.Dense(1, name="size")(deep)}
    model = keras.Model({"words": word, "numbers": numbers}, outputs)
    losses = {"kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "size": "mse"}
    model.compile(
        keras.optimizers.Adam(0.01, epsilon=1e-4),
        losses,
        loss_weights={"kind": 1.0, "size": 0.3},
        metrics={"kind": "accuracy", "size": "mae"},
    )
    return model


def factorized() -> Any:
    """A factorization machine: products of pairs of embeddings."""
    import keras

    keras.utils.set_random_seed(7)
    layers, ops = keras.layers, keras.ops
    x = keras.Input((6,), dtype="int32")
    rows = layers.Embedding(17, 5)(x)
    pairs = ops.square(ops.sum(rows, 1)) - ops.sum(ops.square(rows), 1)
    return _classifier(keras.Model(x, layers.Dense(data.CLASSES)(pairs)))


def experts() -> Any:
    import keras

    keras.utils.set_random_seed(7)
    layers = keras.layers
    x = keras.Input((64,))
    gates = layers.Dense(3, activation="softmax")(x)
    each = keras.ops.stack([layers.Dense(6, activation="relu")(x) for _ in range(3)], 1)
    mixed = keras.ops.sum(each * gates[..., None], 1)
    return _classifier(keras.Model(x, layers.Dense(data.CLASSES)(mixed)))


# -- more than a loss of an output -------------------------------------------------------------------------------------


def siamese() -> Any:
    """One encoder for two pictures, with the contrastive loss of each pair."""
    import keras

    keras.utils.set_random_seed(7)
    a, b = keras.Input((64,), name="a"), keras.Input((64,), name="b")
    shared = keras.layers.Dense(5, activation="tanh")
    distance = keras.ops.sum(keras.ops.square(shared(a) - shared(b)), 1, keepdims=True)

    def contrastive(same: Any, found: Any) -> Any:
        same = keras.ops.cast(same, found.dtype)
        return same * found + (1 - same) * keras.ops.square(keras.ops.maximum(1 - keras.ops.sqrt(found + 1e-6), 0))

    model = keras.Model({"a": a, "b": b}, distance)
    model.compile(keras.optimizers.SGD(0.1), contrastive)
    return model


def ranking() -> Any:
    """The hinge loss between a better and a worse example, added with ``add_loss``."""
    import keras

    keras.utils.set_random_seed(7)
    a, b = keras.Input((64,), name="a"), keras.Input((64,), name="b")
    score = keras.layers.Dense(1)

    class Margin(keras.layers.Layer):
        def call(self, better: Any, worse: Any) -> Any:
            self.add_loss(keras.ops.mean(keras.ops.relu(1.0 - better + worse)))
            return better - worse

    model = keras.Model({"a": a, "b": b}, Margin()(score(a), score(b)))
    model.compile(keras.optimizers.SGD(0.5))
    return model


def autoencoder() -> Any:
    """The error of the reconstruction, with a penalty on the code that is added with ``add_loss``."""
    import keras

    keras.utils.set_random_seed(7)

    class Sparse(keras.layers.Layer):
        def call(self, code: Any) -> Any:
            self.add_loss(0.01 * keras.ops.mean(keras.ops.abs(code)))
            return code

    layers = keras.layers
    code = [layers.Dense(9, activation="relu"), Sparse(), layers.Dense(64, activation="sigmoid")]
    model = keras.Sequential([keras.Input((64,)), *code])
    model.compile(keras.optimizers.Adam(0.01, epsilon=1e-4), "mse")
    return model


def _vae_class() -> Any:
    import keras

    class VAE(keras.Model):
        def __init__(self, **arguments: Any) -> None:
            super().__init__(**arguments)
            self.encoder = keras.layers.Dense(8)
            self.decoder = keras.layers.Dense(64, activation="sigmoid")
            self.seeds = keras.random.SeedGenerator(3)

        def call(self, x: Any, training: bool = False) -> Any:
            mean, spread = keras.ops.split(self.encoder(x), 2, -1)
            kl = keras.ops.square(mean) + keras.ops.exp(spread) - spread - 1
            self.add_loss(0.05 * keras.ops.mean(kl))
            if training:
                mean = mean + keras.ops.exp(spread / 2) * keras.random.normal(keras.ops.shape(mean), seed=self.seeds)
            return self.decoder(mean)

    return VAE


def vae() -> Any:
    model = _vae_class()()
    model.compile(_keras().optimizers.Adam(0.01, epsilon=1e-4), "binary_crossentropy")
    model(data.flat()[:1])
    return model


def gan() -> Any:
    """Two networks and two optimizers in a custom ``train_step``. The noise is part of the data."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(7)

    class GAN(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.generator = keras.Sequential([keras.Input((6,)), keras.layers.Dense(64, activation="sigmoid")])
            self.critic = keras.Sequential([keras.Input((64,)), keras.layers.Dense(5, "relu"), keras.layers.Dense(1)])
            self.second_optimizer = keras.optimizers.SGD(0.1)
            self.bce = keras.losses.BinaryCrossentropy(from_logits=True)

        def call(self, x: Any) -> Any:
            return self.critic(self.generator(x["noise"]))

        def get_config(self) -> dict[str, Any]:
            return {}

        def train_step(self, batch: Any) -> Any:
            x, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
            with tf.GradientTape() as tape:
                real, made = self.critic(x["real"]), self.critic(self.generator(x["noise"]))
                loss = self.bce(tf.ones_like(real), real) + self.bce(tf.zeros_like(made), made)
            weights = self.critic.trainable_variables
            self.second_optimizer.apply(tape.gradient(loss, weights), weights)
            with tf.GradientTape() as tape:
                made = self.critic(self.generator(x["noise"]))
                fooled = self.bce(tf.ones_like(made), made)
            weights = self.generator.trainable_variables
            self.optimizer.apply(tape.gradient(fooled, weights), weights)
            return {"critic": loss, "generator": fooled}

    model = GAN()
    model.compile(keras.optimizers.SGD(0.1))
    model.built = True
    model.optimizer.build(model.generator.trainable_variables)
    model.second_optimizer.build(model.critic.trainable_variables)
    return model


def distilled() -> Any:
    """A frozen teacher that a custom ``train_step`` uses."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(7)

    class Student(keras.Sequential):
        def __init__(self, layers: Any = None, **arguments: Any) -> None:
            super().__init__(layers, **arguments)
            self.teacher = keras.Sequential([keras.Input((64,)), keras.layers.Dense(data.CLASSES)])
            self.teacher.trainable = False

        def train_step(self, batch: Any) -> Any:
            x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
            with tf.GradientTape() as tape:
                found = self(x, training=True)
                loss = self.compute_loss(x, y, found) + 0.1 * tf.reduce_mean(tf.square(found - self.teacher(x)))
            self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
            return self.compute_metrics(x, y, found)

    return _classifier(Student([keras.Input((64,)), keras.layers.Dense(7, "tanh"), keras.layers.Dense(data.CLASSES)]))


def penalized_gradient() -> Any:
    """A loss that includes the gradient of the output with respect to the input."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(7)

    class Smooth(keras.Sequential):
        def train_step(self, batch: Any) -> Any:
            x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
            with tf.GradientTape() as tape:
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    found = self(x, training=True)
                    total = tf.reduce_sum(found)
                loss = self.compute_loss(x, y, found) + 0.1 * tf.reduce_mean(tf.square(inner.gradient(total, x)))
            self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
            return self.compute_metrics(x, y, found)

    return _classifier(Smooth([keras.Input((64,)), keras.layers.Dense(7, "tanh"), keras.layers.Dense(data.CLASSES)]))


def contrastive() -> Any:
    """Compares each example with all others of its batch (NT-Xent), so the loss is not a mean over examples."""
    import keras

    keras.utils.set_random_seed(7)

    def against_the_batch(kinds: Any, found: Any) -> Any:
        found = keras.ops.normalize(found, -1)
        alike = keras.ops.matmul(found, keras.ops.transpose(found)) / 0.5
        same = keras.ops.cast(kinds == keras.ops.transpose(kinds), "float32")
        return keras.ops.mean(-keras.ops.log_softmax(alike) * same, -1)

    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(6)])
    model.compile(keras.optimizers.SGD(0.1), against_the_batch)
    return model


# -- how weights are kept ----------------------------------------------------------------------------------------------


def lora() -> Any:
    import keras

    keras.utils.set_random_seed(7)
    model = _sequential(keras.layers.Dense(9, activation="relu"), shape=(64,))
    model.layers[0].enable_lora(2)
    return _classifier(model)


def quantized() -> Any:
    """The first layer is quantized to int8 and frozen; the last one is trained."""
    import keras

    keras.utils.set_random_seed(7)
    model = _sequential(keras.layers.Dense(9, activation="relu"), shape=(64,))
    model.layers[0].quantize("int8")
    model.layers[0].trainable = False
    return _classifier(model)


def _mixed(policy: str) -> Any:
    import keras

    keras.utils.set_random_seed(7)
    first = keras.layers.Dense(9, activation="tanh", dtype=policy)
    optimizer = keras.optimizers.SGD(0.1)
    if policy == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0**8)
    last = keras.layers.Dense(data.CLASSES, dtype="float32")
    return _classifier(keras.Sequential([keras.Input((64,)), first, last]), optimizer)


def mixed_bfloat16() -> Any:
    return _mixed("mixed_bfloat16")


def mixed_float16() -> Any:
    return _mixed("mixed_float16")


def float64() -> Any:
    import keras

    keras.utils.set_random_seed(7)
    return _classifier(_sequential(keras.layers.Dense(9, activation="tanh", dtype="float64"), shape=(64,)))


def shared() -> Any:
    """One layer that is used three times, and a model inside the model."""
    import keras

    keras.utils.set_random_seed(7)
    x = keras.Input((64,))
    again = keras.layers.Dense(8, activation="tanh")
    inner = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(8)])
    first = again(keras.layers.Dense(8)(x))
    return _classifier(keras.Model(x, keras.layers.Dense(data.CLASSES)(again(inner(again(first))) + inner(first))))


def subclassed() -> Any:
    import keras

    keras.utils.set_random_seed(7)

    class Scaled(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.scale = self.add_weight(shape=(shape[-1],), initializer="ones", constraint="non_neg")

        def call(self, x: Any) -> Any:
            return x * self.scale

    class Net(keras.Model):
        def __init__(self, units: int = 7, **arguments: Any) -> None:
            super().__init__(**arguments)
            self.scaled = Scaled()
            self.hidden = keras.layers.Dense(units, activation=lambda v: keras.ops.tanh(v) * 1.1)
            self.blocks = [keras.layers.Dense(units, activation="relu") for _ in range(2)]
            self.out = keras.layers.Dense(data.CLASSES)

        def call(self, x: Any, training: bool = False) -> Any:
            x = self.hidden(self.scaled(x))
            for block in self.blocks:
                x = x + block(x)
            return self.out(x)

    model = Net()
    model(data.flat()[:1])
    return _classifier(model)


def moving_teacher() -> Any:
    """A layer that keeps a moving mean of its own weights. The loss pulls the weights towards this mean."""
    import keras

    keras.utils.set_random_seed(7)

    class Remembering(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.now = self.add_weight(shape=(shape[-1], 6), name="now")
            self.mean = self.add_weight(shape=(shape[-1], 6), name="mean", trainable=False)

        def call(self, x: Any, training: bool = False) -> Any:
            if training:
                self.mean.assign(0.9 * self.mean + 0.1 * self.now)
            self.add_loss(keras.ops.mean(keras.ops.square(self.now - self.mean)))
            return keras.ops.tanh(keras.ops.matmul(x, self.now))

    return _classifier(_sequential(Remembering(), shape=(64,)))


def own_optimizer() -> Any:
    """A custom optimizer with state of its own: it descends by the (softened) sign of a moving mean of the gradient."""
    import keras

    keras.utils.set_random_seed(7)
    return _classifier(_sequential(keras.layers.Dense(7, activation="tanh"), shape=(64,)), _calm_class()(0.05))


def _calm_class() -> Any:
    import keras

    class Calm(keras.optimizers.Optimizer):
        def build(self, variables: Any) -> None:
            super().build(variables)
            self.means = [self.add_variable_from_reference(v, "mean") for v in variables]

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            mean = self.means[self._get_variable_index(variable)]
            self.assign(mean, 0.9 * mean + 0.1 * gradient)
            self.assign_sub(variable, learning_rate * keras.ops.tanh(mean * 10.0))

        def get_config(self) -> dict[str, Any]:
            return dict(super().get_config())

    return Calm


def own_everything() -> Any:
    """A custom regularizer, initializer, constraint and metric, and two custom activations with the same name."""
    import keras

    keras.utils.set_random_seed(7)
    ops = keras.ops

    class Ends(keras.regularizers.Regularizer):
        def __call__(self, weights: Any) -> Any:
            return 0.01 * ops.sum(ops.square(weights[0]) + ops.square(weights[-1]))

        def get_config(self) -> dict[str, Any]:
            return {}

    class Waves(keras.initializers.Initializer):
        def __call__(self, shape: Any, dtype: Any = None) -> Any:
            return ops.reshape(ops.sin(ops.arange(int(np.prod(shape)), dtype="float32")), shape) / 4.0

    class Bounded(keras.constraints.Constraint):
        def __call__(self, weights: Any) -> Any:
            return ops.clip(weights, -0.3, 0.3)

    class Largest(keras.metrics.Metric):
        def __init__(self, name: str = "largest", **arguments: Any) -> None:
            super().__init__(name=name, **arguments)
            self.sum = self.add_weight(name="sum", initializer="zeros")
            self.count = self.add_weight(name="count", initializer="zeros")

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            self.sum.assign_add(ops.sum(ops.max(y_pred, -1)))
            self.count.assign_add(ops.cast(ops.shape(y_pred)[0], "float32"))

        def result(self) -> Any:
            return self.sum / self.count

    def steep(slope: float) -> Any:
        def activation(x: Any) -> Any:
            return ops.tanh(slope * x)

        return activation

    layers = keras.layers
    return _classifier(
        _sequential(
            layers.Dense(7, activation=steep(0.5), kernel_regularizer=Ends(), kernel_initializer=Waves()),
            layers.Dense(6, activation=steep(2.0), kernel_constraint=Bounded()),
            shape=(64,),
        ),
        metrics=[Largest()],
    )


def two_losses_of_one_name() -> Any:
    import keras

    keras.utils.set_random_seed(7)

    def make(power: float) -> Any:
        def loss(y_true: Any, y_pred: Any) -> Any:
            return keras.ops.mean(keras.ops.abs(y_true - y_pred) ** power, -1)

        return loss

    x = keras.Input((64,))
    outputs = {"a": keras.layers.Dense(1, name="a")(x), "b": keras.layers.Dense(1, name="b")(x)}
    model = keras.Model(x, outputs)
    model.compile(keras.optimizers.SGD(0.02), {"a": make(2.0), "b": make(1.5)})
    return model


def compares() -> Any:
    """Layers, a loss and a metric that compare numbers for equality."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(7)

    class Marks(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return x + tf.cast(x == 0, x.dtype) + 0.5 * tf.cast(tf.argmax(x, -1)[:, None] != 3, x.dtype)

    def loss(y_true: Any, y_pred: Any) -> Any:
        right = tf.cast(tf.cast(y_true, tf.int64) == tf.argmax(y_pred, -1)[:, None], tf.float32)
        each = keras.losses.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)
        return each * (2.0 - right[:, 0])

    def right(y_true: Any, y_pred: Any) -> Any:
        return tf.cast(tf.cast(y_true, tf.int64)[:, 0] == tf.argmax(y_pred, -1), tf.float32)

    model = _sequential(Marks(), keras.layers.Dense(7, activation="tanh"), shape=(64,))
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=[right])
    return model


# -- how it is trained -------------------------------------------------------------------------------------------------


def plain() -> Any:
    return _classifier(_sequential(_keras().layers.Dense(7, activation="tanh"), shape=(64,)))


def eager() -> Any:
    return _classifier(_sequential(_keras().layers.Dense(7, activation="tanh"), shape=(64,)), run_eagerly=True)


def several_steps_at_once() -> Any:
    return _classifier(_sequential(_keras().layers.Dense(7, activation="tanh"), shape=(64,)), steps_per_execution=2)


def compiled_by_xla() -> Any:
    return _classifier(_sequential(_keras().layers.Dense(7, activation="tanh"), shape=(64,)), jit_compile=True)


def _x(values: Callable[[], Any], y: Callable[[], Any] = data.classes, **more: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"x": values(), "y": y(), **data.FIT, **more}


def _pairs() -> dict[str, Any]:
    other = np.roll(data.flat(), 5, 0)
    return {"a": data.flat(), "b": other}


def _same_kind() -> Any:
    return (data.classes() == np.roll(data.classes(), 5))[:, None].astype("float32")


def _noise() -> dict[str, Any]:
    return {"real": data.flat(), "noise": np.sin(np.arange(data.EXAMPLES * 6)).reshape(-1, 6).astype("float32")}


def _kinds_and_sizes() -> dict[str, Any]:
    return {"kind": data.classes(), "size": data.target()}


def _words_and_numbers() -> dict[str, Any]:
    return {"words": data.tokens(), "numbers": data.flat()}


def _features() -> dict[str, Any]:
    return {"size": data.vector()[:, 3:4], "word": data.words()}


def _next() -> Any:
    return np.roll(data.tokens(), -1, 1)


def _column() -> Any:
    return data.classes()[:, None]


def _twice() -> dict[str, Any]:
    return {"a": data.target(), "b": data.target() * 2}


def _rows() -> Any:
    return data.images()[..., 0]


def _validated() -> dict[str, Any]:
    return {**_x(data.flat)(), "validation_data": (data.flat()[:14], data.classes()[:14])}


def _weighted() -> dict[str, Any]:
    return {**_x(data.flat)(), "sample_weight": np.linspace(0.0, 2.0, data.EXAMPLES).astype("float32")}


def _by_class() -> dict[str, Any]:
    return {**_x(data.flat)(), "class_weight": {kind: 0.5 + kind / 5 for kind in range(data.CLASSES)}}


@dataclass(frozen=True)
class Whole:
    """A model and its data."""

    model: Callable[[], Any]
    fit: Callable[[], dict[str, Any]]
    tolerance: float = 3e-5


PICTURES = _x(data.images)
FLAT = _x(data.flat)
ROWS = _x(_rows)
TOKENS = _x(data.tokens)

MODELS: dict[str, Whole] = {
    "CNN": Whole(cnn, PICTURES),
    "ResNet, group normalization": Whole(resnet, PICTURES, 1e-4),
    "ResNet, batch normalization": Whole(resnet_batch_normalization, PICTURES),
    "U-Net": Whole(unet, _x(data.images, data.images)),
    "MobileNet": Whole(mobilenet, PICTURES),
    "TimeDistributed CNN and ConvLSTM": Whole(film, _x(data.film)),
    "frozen base, new head": Whole(frozen, FLAT),
    "random image augmentation": Whole(augmented, PICTURES),
    "dropout": Whole(dropout, PICTURES),
    "SELU, PReLU, unit normalization": Whole(selu, PICTURES),
    "spectral normalization": Whole(spectral, PICTURES, 1e-4),
    "segmentation, Dice per image": Whole(dice, _x(data.images, data.images)),
    "LSTM": Whole(lstm, ROWS),
    "bidirectional GRU": Whole(gru, ROWS),
    "bidirectional GRU, stateful": Whole(stateful, _x(_rows, batch_size=11)),
    "WaveNet": Whole(wavenet, ROWS),
    "transformer, positions and masks": Whole(transformer, TOKENS, 1e-4),
    "language model, tied embeddings": Whole(decoder, _x(data.tokens, _next), 1e-4),
    "LSTM to LSTM": Whole(translator, lambda: {**_x(lambda: {"source": _rows(), "target": data.tokens()}, _next)()}),
    "attention pooling": Whole(pooled_by_attention, ROWS, 1e-4),
    "Normalization inside": Whole(normalized, FLAT),
    "StringLookup inside": Whole(looked_up, _x(data.words)),
    "TextVectorization inside": Whole(vectorized, _x(data.sentences)),
    "FeatureSpace inside": Whole(features, _x(_features)),
    "wide and deep, two outputs": Whole(wide_and_deep, _x(_words_and_numbers, _kinds_and_sizes)),
    "factorization machine": Whole(factorized, TOKENS),
    "mixture of experts": Whole(experts, FLAT),
    "siamese, contrastive loss on pairs": Whole(siamese, _x(_pairs, _same_kind)),
    "ranking with add_loss": Whole(ranking, lambda: {"x": _pairs(), **data.FIT}),
    "autoencoder with add_loss": Whole(autoencoder, _x(data.flat, data.flat)),
    "VAE": Whole(vae, _x(data.flat, data.flat)),
    "GAN, two optimizers": Whole(gan, lambda: {"x": _noise(), **data.FIT}),
    "distillation, custom train_step": Whole(distilled, FLAT),
    "gradient penalty, custom train_step": Whole(penalized_gradient, FLAT),
    "contrastive loss within the batch": Whole(contrastive, _x(data.flat, _column)),
    "LoRA": Whole(lora, FLAT),
    "quantized to int8, frozen": Whole(quantized, FLAT),
    "mixed_bfloat16": Whole(mixed_bfloat16, FLAT, 2e-2),
    "mixed_float16": Whole(mixed_float16, FLAT, 5e-3),
    "float64 layer": Whole(float64, FLAT),
    "shared layers, nested model": Whole(shared, FLAT),
    "subclassed": Whole(subclassed, FLAT),
    "layer with a moving average of its weights": Whole(moving_teacher, FLAT),
    "custom optimizer": Whole(own_optimizer, FLAT),
    "custom regularizer, initializer, constraint, metric": Whole(own_everything, FLAT),
    "two losses with the same name": Whole(two_losses_of_one_name, _x(data.flat, _twice)),
    "tensors compared with ==": Whole(compares, _x(data.flat, _column)),
    "validation": Whole(plain, _validated),
    "sample_weight": Whole(plain, _weighted),
    "class_weight": Whole(plain, _by_class),
    "run_eagerly": Whole(eager, FLAT),
    "steps_per_execution": Whole(several_steps_at_once, FLAT),
    "jit_compile": Whole(compiled_by_xla, FLAT),
}


def trials() -> list[Trial]:
    """Return a trial for each model."""

    def trial(row: str, whole: Whole) -> Trial:
        def model(rows: Sequence[str]) -> Any:
            return whole.model()

        def fit(rows: Sequence[str]) -> dict[str, Any]:
            return whole.fit()

        return Trial("models", (row,), model, fit, tolerance=whole.tolerance, is_whole=True)

    return [trial(row, whole) for row, whole in MODELS.items()]
