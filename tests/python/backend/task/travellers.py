"""Models that must be the same after they have been rebuilt from their description. Each has something that is easily
lost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

layers, ops = keras.layers, keras.ops

X = np.random.default_rng(1).normal(size=(12, 4)).astype("float32")
Y = (X @ np.arange(8).reshape(4, 2) / 5).astype("float32")
WORDS = np.array([["the cat"], ["a dog\u2028and"], ["the dog"], ["unseen"]] * 3)

Traveller = tuple[Any, Any, Any]
"""A compiled model, and a batch of x and y."""

MODELS: dict[str, Callable[[], Traveller]] = {}


def traveller(function: Callable[[], Any]) -> Callable[[], Any]:
    MODELS[function.__name__.strip("_").replace("_", " ")] = function
    return function


def compiled(*stack: Any, x: Any = X, y: Any = Y, loss: Any = "mse", optimizer: Any = "sgd", **more: Any) -> Traveller:
    kind = {"float32": "float32", "float64": "float32", "int64": "int64"}.get(str(x.dtype), "string")
    model = keras.Sequential([keras.Input(x.shape[1:], dtype=kind), *stack])
    model.compile(optimizer, loss, **more)
    return model, x, y


def scaled_loss(factor: float) -> Any:
    def loss(y: Any, pred: Any) -> Any:
        return factor * ops.mean(ops.square(y - pred), axis=-1)

    return loss


def scaled_activation(factor: float) -> Any:
    def relu(v: Any) -> Any:
        return factor * ops.tanh(v)

    return relu


def layer_class(factor: float) -> Any:
    class Dense(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.w = self.add_weight(shape=(shape[-1],), initializer="ones")

        def call(self, v: Any) -> Any:
            return v * self.w * factor

    return Dense


# -- what layers compute or look up ------------------------------------------------------------------------------------


@traveller
def adapted_normalization() -> Any:
    layer = layers.Normalization()
    layer.adapt(X * 30 + 200)
    return compiled(layer, layers.Dense(2), x=X * 30 + 200)


@traveller
def inverted_normalization_in_a_nested_model() -> Any:
    layer = layers.Normalization(invert=True)
    layer.adapt(X * 30 + 200)
    return compiled(keras.Sequential([keras.Input((4,)), layer]), layers.Rescaling(0.01, offset=-1), layers.Dense(2))


@traveller
def integer_lookup() -> Any:
    layer = layers.IntegerLookup()
    numbers = np.array([[5, 7], [7, 9], [11, 5]] * 4)
    layer.adapt(numbers[:6])
    return compiled(layer, layers.Embedding(9, 3), layers.Flatten(), layers.Dense(2), x=numbers)


@traveller
def one_hot_integers_through_a_file() -> Any:
    layer = layers.IntegerLookup(vocabulary=[3, 4, 8], output_mode="multi_hot", num_oov_indices=2)
    return compiled(layer, layers.Dense(2), x=np.array([[3, 4], [4, 8], [9, 9]] * 4))


@traveller
def string_lookup() -> Any:
    layer = layers.StringLookup(output_mode="multi_hot")
    layer.adapt(WORDS)
    return compiled(layer, layers.Dense(2), x=WORDS)


@traveller
def words_with_ends_of_lines() -> Any:
    layer = layers.StringLookup(mask_token="")
    layer.adapt(np.array([["a\nb"], ["c\x85d"], ["e\x0bf"], ["c\x85d"]]))
    data = np.array([["a\nb"], ["c\x85d"], ["e\x0bf"], [""]] * 3)
    return compiled(layer, layers.Embedding(6, 3), layers.Flatten(), layers.Dense(2), x=data)


@traveller
def text_vectorization() -> Any:
    layer = layers.TextVectorization(output_sequence_length=3)
    layer.adapt(WORDS[:, 0])
    return compiled(layer, layers.Embedding(9, 3), layers.Flatten(), layers.Dense(2), x=WORDS)


@traveller
def text_vectorization_tf_idf() -> Any:
    layer = layers.TextVectorization(output_mode="tf_idf", max_tokens=12, pad_to_max_tokens=True)
    layer.adapt(WORDS[:, 0])
    return compiled(layer, layers.Dense(2), x=WORDS)


@traveller
def text_vectorization_with_a_function() -> Any:
    layer = layers.TextVectorization(standardize=tf.strings.upper, output_sequence_length=2)
    layer.adapt(WORDS[:, 0])
    return compiled(layer, layers.Embedding(9, 3), layers.Flatten(), layers.Dense(2), x=WORDS)


@traveller
def discretization() -> Any:
    layer = layers.Discretization(num_bins=4)
    layer.adapt(X)
    return compiled(layer, layers.Embedding(5, 2), layers.Flatten(), layers.Dense(2))


@traveller
def hashing_and_categories() -> Any:
    return compiled(
        layers.Hashing(6, salt=3), layers.CategoryEncoding(6, output_mode="multi_hot"), layers.Dense(2), x=WORDS
    )


@traveller
def hashed_crossing() -> Any:
    a, b = keras.Input((1,), dtype="string"), keras.Input((1,), dtype="int64")
    crossed = layers.HashedCrossing(8, output_mode="one_hot")((a, b))
    model = keras.Model([a, b], layers.Dense(2)(layers.Flatten()(crossed)))
    model.compile("sgd", "mse")
    return model, (WORDS, np.arange(12).reshape(12, 1)), Y


@traveller
def feature_space() -> Any:
    space = keras.utils.FeatureSpace(
        {"number": "float_normalized", "word": keras.utils.FeatureSpace.string_categorical(num_oov_indices=1)},
        crosses=[],
        output_mode="concat",
    )
    data = {"word": WORDS[:, 0], "number": X[:, 0] * 9}
    space.adapt(tf.data.Dataset.from_tensor_slices(data))
    model = keras.Model(space.get_inputs(), layers.Dense(2)(space.get_encoded_features()))
    model.compile("sgd", "mse")
    return model, {"number": X[:, :1] * 9, "word": WORDS}, Y


@traveller
def own_files_and_variables() -> Any:
    class Remembering(keras.layers.Layer):
        def __init__(self, **more: Any) -> None:
            super().__init__(**more)
            self.offset: Any = tf.constant(0.0)
            self.table: Any = None

        def call(self, v: Any) -> Any:
            return v + self.offset + (0.0 if self.table is None else self.table["shift"])

        def save_own_variables(self, store: Any) -> None:
            store["offset"] = np.float32(self.offset)

        def load_own_variables(self, store: Any) -> None:
            self.offset = tf.constant(store["offset"])

        def save_assets(self, directory: str) -> None:
            with open(f"{directory}/table.txt", "w") as file:
                file.write(str(self.table["shift"]))

        def load_assets(self, directory: str) -> None:
            with open(f"{directory}/table.txt") as file:
                self.table = {"shift": float(file.read())}

    layer = Remembering()
    traveller = compiled(layer, layers.Dense(2))
    layer.offset, layer.table = tf.constant(3.0), {"shift": 4.0}
    return traveller


# -- two of one name ---------------------------------------------------------------------------------------------------


@traveller
def two_losses_of_one_name() -> Any:
    inputs = keras.Input((4,))
    outputs = {"a": layers.Dense(2, name="a")(inputs), "b": layers.Dense(2, name="b")(inputs)}
    model = keras.Model(inputs, outputs)
    model.compile("adam", {"a": scaled_loss(1.0), "b": scaled_loss(20.0)}, loss_weights={"a": 2.0, "b": 0.5})
    return model, X, {"a": Y, "b": Y}


@traveller
def functions_named_as_keras_names_them() -> Any:
    def mean_squared_error(y: Any, pred: Any) -> Any:
        return ops.mean(ops.abs(y - pred) * 3, axis=-1)

    def glorot_uniform(shape: Any, dtype: Any = None) -> Any:
        return ops.ones(shape, dtype) * 0.3

    class L2(keras.regularizers.Regularizer):
        def __call__(self, weights: Any) -> Any:
            return 0.7 * ops.sum(ops.abs(weights))

    stack = [layers.Dense(3, "relu"), layers.Dense(3, scaled_activation(2.0)), layers.Dense(3, scaled_activation(0.1))]
    last = layers.Dense(2, kernel_initializer=glorot_uniform, kernel_regularizer=L2())
    return compiled(*stack, last, loss=mean_squared_error, metrics=["mse", mean_squared_error])


@traveller
def lambdas_everywhere() -> Any:
    stack = [
        layers.Lambda(lambda v: v * 2),
        layers.Dense(
            3, activation=lambda v: v * 3, kernel_initializer=lambda shape, dtype=None: ops.ones(shape, dtype)
        ),
        layers.Lambda(lambda v: v * 5),
        layers.Dense(2, bias_initializer=lambda shape, dtype=None: ops.ones(shape, dtype) * 0.5),
    ]
    return compiled(*stack, loss=lambda y, p: ops.mean(ops.abs(y - p)), metrics=[lambda y, p: ops.max(p)])


@traveller
def classes_of_one_name() -> Any:
    return compiled(layer_class(2.0)(), layer_class(0.5)(), layers.Dense(2))


@traveller
def registered_in_packages() -> Any:
    first = keras.saving.register_keras_serializable("first", "Scale")(layer_class(3.0))
    second = keras.saving.register_keras_serializable("second", "Scale")(layer_class(0.25))
    again = keras.saving.register_keras_serializable("first", "Scale")(layer_class(7.0))
    return compiled(first(), second(), again(), layers.Dense(2))


def _power(y: Any, pred: Any, power: float) -> Any:
    return ops.mean(ops.abs(y - pred) ** power, axis=-1)


class _Cube:
    """A callable without a configuration."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, y: Any, pred: Any) -> Any:
        return self.factor * ops.mean(ops.abs(y - pred) ** 3, axis=-1)

    def method(self, y: Any, pred: Any) -> Any:
        return self.factor * ops.mean(ops.abs(y - pred), axis=-1)


@traveller
def partials_callables_and_methods() -> Any:
    inputs = keras.Input((4,))
    heads = [layers.Dense(2, name=name)(inputs) for name in "abcd"]
    model = keras.Model(inputs, heads)
    losses = [functools.partial(_power, power=1.5), _Cube(2.0), _Cube(3.0).method, keras.losses.MeanAbsoluteError]
    model.compile("sgd", losses, metrics=[[], [_Cube(4.0).method], [], ["mae"]])
    return model, X, [Y, Y, Y, Y]


@traveller
def functions_of_tensorflow() -> Any:
    return compiled(layers.Dense(3, tf.nn.leaky_relu), layers.Activation(tf.sinh), layers.Dense(2, ops.softplus))


@traveller
def objects_without_get_config() -> Any:
    class Huber(keras.losses.Loss):
        def __init__(self, delta: float = 1.0) -> None:
            super().__init__()
            self.delta = delta

        def call(self, y: Any, pred: Any) -> Any:
            return self.delta * ops.mean(ops.abs(y - pred), axis=-1)

    class Above(keras.metrics.Metric):
        def __init__(self, threshold: float = 0.5, name: str = "above") -> None:
            super().__init__(name=name)
            self.threshold = threshold
            self.total = self.add_weight(initializer="zeros")

        def update_state(self, y: Any, pred: Any, sample_weight: Any = None) -> None:
            self.total.assign_add(ops.sum(ops.cast(pred > self.threshold, "float32")))

        def result(self) -> Any:
            return self.total * 1.0

    class Decay(keras.optimizers.schedules.LearningRateSchedule):
        def __init__(self, start: float = 1e-3) -> None:
            self.start = start

        def __call__(self, step: Any) -> Any:
            return self.start / (1.0 + ops.cast(step, "float32"))

    class Twice(keras.optimizers.SGD):
        def __init__(self, factor: float = 1.0, **more: Any) -> None:
            super().__init__(**more)
            self.factor = factor

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            super().update_step(gradient * self.factor, variable, learning_rate)

    class Pull(keras.regularizers.Regularizer):
        def __init__(self, to: float = 0.0) -> None:
            self.to = to

        def __call__(self, weights: Any) -> Any:
            return ops.sum(ops.square(weights - self.to))

    layer = layers.Dense(2, kernel_regularizer=Pull(3.0))
    return compiled(layer, loss=Huber(4.0), metrics=[Above(-9.0)], optimizer=Twice(5.0, learning_rate=Decay(0.1)))


@traveller
def a_layer_that_is_given_functions() -> Any:
    class Applied(keras.layers.Layer):
        def __init__(self, functions: Any, table: Any, **more: Any) -> None:
            super().__init__(**more)
            self.functions, self.values = functions, table

        def get_config(self) -> dict[str, Any]:
            return {**super().get_config(), "functions": self.functions, "table": self.values}

        def call(self, v: Any) -> Any:
            for function in self.functions:
                v = function(v)
            return v + self.values["a"]

    return compiled(Applied([scaled_activation(2.0), scaled_activation(3.0)], {"a": 5.0}), layers.Dense(2))


@traveller
def attributes_set_later() -> Any:
    class Net(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.alpha, self.steps = 0.1, [1, 2]
            self.out = layers.Dense(2)

        def call(self, v: Any) -> Any:
            return self.out(v) * self.alpha + len(self.steps)

    model = Net()
    model.alpha, model.steps = 0.75, [1, 2, 3, 4]
    model.compile("sgd", "mse")
    return model, X, Y


# -- what is not in a configuration ------------------------------------------------------------------------------------


@traveller
def trainable_flags() -> Any:
    inner = keras.Sequential([keras.Input((4,)), layers.Dense(3), layers.BatchNormalization()])
    inner.trainable = False
    found = compiled(inner, layers.Dense(3), layers.Dense(2), optimizer="adam")
    found[0].layers[1].trainable = False
    found[0].layers[2].bias.trainable = False
    return found


@traveller
def frozen_after_the_optimizer_was_built() -> Any:
    found = compiled(layers.Dense(3), layers.Dense(2), optimizer=keras.optimizers.Adam(0.01))
    found[0].optimizer.build(found[0].trainable_variables)
    found[0].layers[0].trainable = False
    return found


@traveller
def seeds_and_dropout() -> Any:
    noise = [layers.Dropout(0.4), layers.GaussianNoise(0.3, seed=5), layers.Dropout(0.2, seed=7)]
    return compiled(layers.Dense(8), *noise, layers.Dense(2))


@traveller
def lora() -> Any:
    found = compiled(layers.Dense(3, name="first"), layers.Dense(2), optimizer="adam")
    found[0].layers[0].enable_lora(2)
    found[0].compile("adam", "mse")
    found[0].layers[0].lora_kernel_b.assign(np.ones((2, 3)))
    return found


@traveller
def quantized() -> Any:
    found = compiled(layers.Dense(3), layers.Dense(2))
    found[0].layers[0].quantize("int8")
    found[0].compile("sgd", "mse")
    return found


@traveller
def quantized_with_lora() -> Any:
    found = compiled(layers.Embedding(9, 3), layers.Flatten(), layers.Dense(2), x=np.arange(24).reshape(12, 2) % 9)
    found[0].layers[0].quantize("int8")
    found[0].layers[0].enable_lora(2)
    found[0].compile("adam", "mse")
    return found


@traveller
def policies_of_layers() -> Any:
    policies = keras.dtype_policies.DTypePolicyMap()
    policies["inner/half"] = keras.DTypePolicy("mixed_bfloat16")
    inner = keras.Sequential(
        [keras.Input((4,)), layers.Dense(3, name="half", dtype=policies), layers.Dense(3, dtype="float64")],
        name="inner",
    )
    return compiled(inner, layers.Dense(2, dtype="mixed_float16"))


def _under(policy: str, make: Callable[[], Any]) -> Any:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        return make()
    finally:
        keras.config.set_dtype_policy(before)


@traveller
def mixed_float16_set_back() -> Any:
    return _under("mixed_float16", lambda: compiled(layers.Dense(3), layers.Dense(2), optimizer="adam"))


@traveller
def mixed_float16_in_a_class() -> Any:
    class Net(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.hidden, self.out = layers.Dense(3), layers.Dense(2)

        def call(self, v: Any) -> Any:
            return self.out(self.hidden(v))

    def make() -> Any:
        model = Net()
        model.compile("adam", "mse")
        return model, X, Y

    return _under("mixed_float16", make)


@traveller
def mixed_float16_without_scaling() -> Any:
    return _under("mixed_float16", lambda: compiled(layers.Dense(2), auto_scale_loss=False))


@traveller
def scaled_without_a_policy() -> Any:
    scaling = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.02), initial_scale=64.0)
    return compiled(layers.Dense(2), optimizer=scaling)


@traveller
def compiled_otherwise_since() -> Any:
    found = compiled(layers.Dense(2), weighted_metrics=["mae"], metrics=["mse", keras.metrics.MeanAbsoluteError("m")])
    found[0].optimizer = keras.optimizers.RMSprop(0.3)
    found[0].optimizer.learning_rate = 0.25
    found[0].steps_per_execution, found[0].run_eagerly, found[0].jit_compile = 3, True, False
    return found


@traveller
def averaged_weights_and_schedules() -> Any:
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([2, 5], [0.1, 0.01, 0.001])
    optimizer = keras.optimizers.AdamW(
        schedule, use_ema=True, ema_overwrite_frequency=2, clipnorm=0.7, gradient_accumulation_steps=2
    )
    return compiled(layers.Dense(3), layers.BatchNormalization(), layers.Dense(2), optimizer=optimizer)


@traveller
def weights_that_do_not_decay() -> Any:
    found = compiled(layers.Dense(3), layers.Dense(2), optimizer=keras.optimizers.AdamW(0.1, weight_decay=5.0))
    found[0].optimizer.exclude_from_weight_decay([found[0].layers[0].kernel], ["bias"])
    return found


@traveller
def a_rate_that_is_a_function() -> Any:
    return compiled(layers.Dense(2), optimizer=keras.optimizers.SGD(lambda: 0.37))


@traveller
def shared_layers_and_nested_models() -> Any:
    shared = layers.Dense(3, activation=scaled_activation(1.5))
    replica = keras.Sequential([shared, layers.Dense(3)], name="replica")
    other = keras.Sequential([shared, layers.Dense(3)], name="other")
    again = layers.Dense(4)
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    joined = layers.Concatenate()([replica(again(a)), replica(b), other(again(again(b)))])
    model = keras.Model({"a": a, "b": b}, layers.Bidirectional(layers.GRU(2))(layers.Reshape((3, 3))(joined)))
    model.compile("sgd", keras.losses.Huber(0.3), metrics=["mae"])
    return model, {"a": X, "b": X * 2}, np.concatenate([Y, Y], 1)


@traveller
def recurrent_cells_and_wrappers() -> Any:
    cells = layers.RNN(layers.StackedRNNCells([layers.LSTMCell(3), layers.GRUCell(2, dropout=0.2)]))
    spectral = layers.SpectralNormalization(layers.Dense(4))
    return compiled(spectral, layers.Reshape((2, 2)), layers.TimeDistributed(layers.Dense(3)), cells, layers.Dense(2))


@traveller
def stateful_recurrence() -> Any:
    inputs = keras.Input(batch_shape=(12, 2, 2))
    model = keras.Model(inputs, layers.Dense(2)(layers.LSTM(3, stateful=True)(inputs)))
    model.compile("sgd", "mse")
    return model, X.reshape(12, 2, 2), Y
