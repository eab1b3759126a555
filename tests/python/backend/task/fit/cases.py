"""Models and data for which several tasks and one plain Keras process must reach the same weights after every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np


@dataclass
class Case:
    """A model, ``model()``, that is trained with the arguments ``fit`` of ``keras.Model.fit``, without shuffling."""

    model: Callable[[], Any]
    fit: dict[str, Any]
    tolerance: float = 2e-6
    """The largest permitted difference of weights, relative to the largest weight."""
    metric_tolerance: float = 1e-5
    same_history: bool = True
    callbacks: Callable[[], list[Any]] = field(default=list)
    sizes: tuple[int, ...] = (2,)
    """The numbers of tasks to try. A single number suffices if the result does not depend on it, which saves time."""
    strategy: dict[str, Any] = field(default_factory=dict)
    """The fields of ``AllReduce``."""
    fit_over_tasks: dict[str, Any] = field(default_factory=dict)
    """Arguments of ``cluster.fit`` that Keras's own ``fit`` does not have."""
    plain_model: Callable[[int], Any] | None = None
    """The model that one process trains instead, as the equivalent of a number of tasks."""
    plain_fit: dict[str, Any] = field(default_factory=dict)
    plain_callbacks: Callable[[int], list[Any]] | None = None
    by_function: bool = False
    """Whether the model is passed as a function, because it cannot be rebuilt from its configuration."""
    built_here_and_there: bool = False
    """Whether each task is its own client. Every second task then passes a model that is not built yet."""
    updates: list[int] | None = None
    """The steps of the tasks after which the weights must equal those after the steps of one process. None: after each
    step.
    """


def digits(examples: int, seed: int = 0) -> tuple[Any, Any]:
    """Return inputs of shape (examples, 6), and classes 0 to 2 that depend on them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(examples, 6)).astype("float32")
    return x, (x[:, :3] + 0.3 * rng.normal(size=(examples, 3))).argmax(1).astype("int64")


def dense(
    optimizer: Any, loss: Any = "sparse_categorical_crossentropy", regularizer: Any = None, **compiled: Any
) -> Any:
    import keras

    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(8, activation="tanh", kernel_regularizer=regularizer),
            layers.Dense(3, activation="softmax"),
        ]
    )
    compiled.setdefault("metrics", ["accuracy"])
    model.compile(optimizer, loss, **compiled)
    return model


def _optimizer(name: str, **arguments: Any) -> Any:
    import keras

    return getattr(keras.optimizers, name)(**arguments)


def _data(examples: int = 50, batch: int = 12, epochs: int = 2, **more: Any) -> dict[str, Any]:
    x, y = digits(examples)
    return {"x": x, "y": y, "batch_size": batch, "epochs": epochs, **more}


def _several_inputs() -> Any:
    import keras

    a, b = keras.Input((6,), name="a"), keras.Input((2,), name="b")
    joined = keras.layers.Concatenate()([keras.layers.Dense(5, activation="relu")(a), b])
    outputs = {
        "kind": keras.layers.Dense(3, activation="softmax", name="kind")(joined),
        "size": keras.layers.Dense(1, name="size")(joined),
    }
    model = keras.Model({"a": a, "b": b}, outputs)
    losses = {"kind": "sparse_categorical_crossentropy", "size": "mse"}
    model.compile("adam", losses, loss_weights={"kind": 1.0, "size": 0.3}, metrics={"kind": "accuracy", "size": "mae"})
    return model


def _several_data() -> dict[str, Any]:
    x, y = digits(48)
    inputs, targets = {"a": x, "b": x[:, :2]}, {"kind": y, "size": x[:, :1] * 2}
    return {"x": inputs, "y": targets, "batch_size": 12, "epochs": 2, "validation_split": 0.25}


def _partly_weighted(examples: int = 50) -> dict[str, Any]:
    """Return data with sample weights for one of two outputs."""
    x, y = digits(examples)
    weights = np.linspace(0.1, 2.0, examples).astype("float32")
    inputs, targets = {"a": x, "b": x[:, :2]}, {"kind": y, "size": x[:, :1] * 2}
    sample_weight = {"kind": weights, "size": None}
    some: Any = [{name: None if a is None else a[:7] for name, a in part.items()} for part in (inputs, targets)]
    validation = (*some, {"kind": weights[:7], "size": None})
    given = {"x": inputs, "y": targets, "sample_weight": sample_weight}
    return {**given, "batch_size": 12, "epochs": 2, "validation_data": validation}


def _subclassed() -> Any:
    import keras

    class Scaled(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.scale = self.add_weight(shape=(shape[-1],), initializer="ones")

        def call(self, x: Any) -> Any:
            return x * self.scale

    class Net(keras.Model):
        def __init__(self, units: int = 7, **arguments: Any) -> None:
            super().__init__(**arguments)
            self.scaled = Scaled()
            self.hidden = keras.layers.Dense(units, activation=lambda v: keras.ops.tanh(v) * 1.0)
            self.out = keras.layers.Dense(3, activation="softmax")

        def call(self, x: Any, training: bool = False) -> Any:
            return self.out(self.hidden(self.scaled(x)))

    model = Net()
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def _own_train_step() -> Any:
    import keras
    import tensorflow as tf

    class Own(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                prediction = self(x, training=True)
                loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, prediction))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"own_loss": loss}

    model = Own(
        [keras.Input((6,)), keras.layers.Dense(5, activation="relu"), keras.layers.Dense(3, activation="softmax")]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def _two_optimizers() -> Any:
    import keras
    import tensorflow as tf

    class Pair(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.first = keras.layers.Dense(4)
            self.second = keras.layers.Dense(3, activation="softmax")

        def compile(self, first: Any, second: Any, **arguments: Any) -> None:
            super().compile(optimizer=first, **arguments)
            self.second_optimizer = second

        def call(self, x: Any) -> Any:
            return self.second(self.first(x))

        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape(persistent=True) as tape:
                loss = self.compute_loss(y=y, y_pred=self(x))
            for optimizer, layer in ((self.optimizer, self.first), (self.second_optimizer, self.second)):
                weights = layer.trainable_variables
                optimizer.apply(tape.gradient(loss, weights), weights)
            return self.compute_metrics(x, y, self(x))

    model = Pair()
    model(np.zeros((1, 6)))
    model.compile(
        _optimizer("SGD", learning_rate=0.1),
        _optimizer("Adam"),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    model.optimizer.build(model.first.trainable_variables)
    model.second_optimizer.build(model.second.trainable_variables)
    return model


def _sequences(reduction: str = "sum_over_batch_size") -> Any:
    import keras

    model = keras.Sequential(
        [
            keras.Input((5,), dtype="int32"),
            keras.layers.Embedding(9, 4, mask_zero=True),
            keras.layers.LSTM(4, return_sequences=True),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(reduction=reduction))
    return model


def _sequence_data(**more: Any) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    x = rng.integers(1, 9, size=(26, 5))
    x[np.arange(5)[None] >= rng.integers(1, 6, size=26)[:, None]] = 0
    validation = (x[:7], x[:7] % 3)
    return {"x": x, "y": x % 3, "batch_size": 8, "epochs": 2, "validation_data": validation, **more}


def _derived() -> Any:
    """Return a model with logs that are computed from those of metrics, in all places that Keras allows."""
    import keras

    class Derived(keras.Model):
        def train_step(self, data: Any) -> Any:
            logs = dict(super().train_step(data))
            precision, recall = logs["precision"], logs["recall"]
            return {**logs, "f1": 2 * precision * recall / (precision + recall + 1e-7)}

        def test_step(self, data: Any) -> Any:
            logs = dict(super().test_step(data))
            return {**logs, "wrong": 1 - logs["accuracy"]}

        def compute_metrics(self, *args: Any, **arguments: Any) -> Any:
            logs = dict(super().compute_metrics(*args, **arguments))
            return {**logs, "squared": logs["accuracy"] ** 2}

    inputs = keras.Input((6,))
    model = Derived(inputs, keras.layers.Dense(3, activation="softmax")(inputs))
    metrics = ["accuracy", keras.metrics.Precision(0.34, name="precision"), keras.metrics.Recall(0.34, name="recall")]
    model.compile(keras.optimizers.SGD(0.1), "categorical_crossentropy", metrics=metrics)
    return model


def _told_besides() -> Any:
    """Return a model that reports the mean over the last batch in addition to its metrics. One of the metrics creates
    its own variables.
    """
    import keras
    import tensorflow as tf

    class Error(keras.metrics.Metric):
        def __init__(self) -> None:
            super().__init__(name="error")
            self.total, self.count, self.scale = keras.Variable(0.0), tf.Variable(0.0), keras.Variable(3.0)

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            self.total.assign_add(self.scale * keras.ops.sum(1 - keras.ops.max(y_pred, -1)))
            self.count.assign_add(tf.cast(tf.shape(y_pred)[0], "float32"))

        def result(self) -> Any:
            return self.total / (self.count + 1e-9)

        def reset_state(self) -> None:
            self.total.assign(0.0)
            self.count.assign(0.0)

    class Told(keras.Sequential):
        def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
            return {**super().compute_metrics(x, y, y_pred, sample_weight), "first": keras.ops.mean(y_pred[:, 0])}

    model = Told([keras.Input((6,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(3, "softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy", Error()])
    return model


def _penalized_activity() -> Any:
    import keras

    model = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(8, activation="tanh", activity_regularizer="l2", bias_regularizer="l1"),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def _mixed(policy: str) -> Callable[[], Any]:
    def model() -> Any:
        import keras

        layers = [
            keras.Input((6,)),
            keras.layers.Dense(8, activation="tanh", dtype=policy),
            keras.layers.Dense(3, activation="softmax", dtype="float32"),
        ]
        model = keras.Sequential(layers)
        optimizer = _optimizer("SGD", learning_rate=0.1)
        if policy == "mixed_float16":
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0**10, dynamic_growth_steps=5)
        model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
        return model

    return model


def _double() -> Any:
    import keras

    layers = [keras.Input((6,)), keras.layers.Dense(4, dtype="float64"), keras.layers.Dense(3, activation="softmax")]
    model = keras.Sequential(layers)
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def _scheduled() -> Any:
    import keras

    rate = keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=3, decay_rate=0.7)
    return dense(keras.optimizers.SGD(rate, momentum=0.5))


def _rate_callbacks() -> list[Any]:
    import keras

    return [
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.05 * (epoch + 1)),
        keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=0, factor=0.5, min_delta=10.0),
    ]


def _stopping_callbacks() -> list[Any]:
    import keras

    return [keras.callbacks.EarlyStopping(monitor="val_loss", patience=1, min_delta=0.05, restore_best_weights=True)]


def _weights(examples: int) -> Any:
    return np.linspace(0.1, 2.0, examples).astype("float32")


_VALIDATION = digits(7, seed=3)
_WEIGHTED_VALIDATION = (*_VALIDATION, _weights(7))

CASES: dict[str, Case] = {
    "sgd, last batch smaller than the cluster": Case(
        lambda: dense(_optimizer("SGD", learning_rate=0.2)), _data(validation_data=_VALIDATION), sizes=(1, 2, 3)
    ),
    "momentum and clipping": Case(
        lambda: dense(_optimizer("SGD", learning_rate=0.1, momentum=0.9, nesterov=True, global_clipnorm=0.5)),
        _data(validation_data=_VALIDATION, validation_batch_size=2),
        sizes=(1, 2, 3),
    ),
    "adam, class weights": Case(
        lambda: dense("adam"), _data(class_weight={0: 0.2, 1: 3.0, 2: 1.0}), tolerance=2e-5, sizes=(1, 2, 3)
    ),
    "sample weights": Case(
        lambda: dense("adam", weighted_metrics=["sparse_categorical_crossentropy", "accuracy"], metrics=None),
        _data(sample_weight=_weights(50), validation_data=_WEIGHTED_VALIDATION),
        tolerance=2e-5,
    ),
    "validation split, steps, frequency, initial epoch": Case(
        lambda: dense("sgd", metrics=["accuracy", "sparse_categorical_crossentropy"]),
        _data(epochs=5, validation_split=0.3, validation_freq=2, initial_epoch=1, validation_steps=2),
    ),
    "steps per epoch": Case(lambda: dense("sgd"), _data(examples=48, epochs=4, steps_per_epoch=2)),
    "steps per epoch, the last fewer": Case(lambda: dense("sgd"), _data(epochs=5, steps_per_epoch=2), sizes=(2, 3)),
    "one example in the last batch": Case(lambda: dense("sgd"), _data(examples=25), sizes=(2, 3)),
    "fewer examples than tasks": Case(lambda: dense("sgd"), _data(examples=2, epochs=3), sizes=(2, 3)),
    "sum over examples, weights regularized": Case(
        lambda: dense("sgd", _loss("SparseCategoricalCrossentropy", "sum"), regularizer="l2", metrics=[]),
        _data(batch=8, validation_data=_VALIDATION),
        tolerance=2e-5,
        sizes=(2, 3),
    ),
    "mean over sample weights": Case(
        lambda: dense("sgd", _loss("SparseCategoricalCrossentropy", "mean_with_sample_weight")),
        _data(sample_weight=_weights(50), validation_data=_WEIGHTED_VALIDATION),
    ),
    "masked sequences, embedding": Case(_sequences, _sequence_data(), tolerance=5e-6, sizes=(2, 3)),
    "a class that is ignored": Case(
        lambda: dense("sgd", _ignoring(1)), _data(batch=8, validation_data=_VALIDATION), sizes=(2, 3)
    ),
    "masked sequences, sum": Case(lambda: _sequences("sum"), _sequence_data(), tolerance=2e-5),
    "several inputs and outputs": Case(_several_inputs, _several_data(), tolerance=2e-5, sizes=(2, 3)),
    "weights for one of two outputs": Case(
        _several_inputs, _partly_weighted(), tolerance=2e-5, sizes=(2, 3), same_history=False
    ),
    "subclassed, not built": Case(_subclassed, _data(validation_data=_VALIDATION), built_here_and_there=True),
    "own train_step": Case(_own_train_step, _data(), tolerance=2e-5, same_history=False),
    "logs derived from metrics": Case(
        _derived,
        {
            **_data(examples=49, validation_batch_size=6, validation_data=(_VALIDATION[0], np.eye(3)[_VALIDATION[1]])),
            "y": np.eye(3)[digits(49)[1]],
        },
        by_function=True,
        sizes=(2, 3),
    ),
    "two optimizers": Case(_two_optimizers, _data(), tolerance=2e-5, sizes=(2, 3), by_function=True),
    "steps per execution": Case(
        lambda: dense("sgd", steps_per_execution=3), _data(validation_data=_VALIDATION), same_history=True, sizes=(2, 3)
    ),
    "gradients accumulated": Case(
        lambda: dense(_optimizer("SGD", learning_rate=0.1, gradient_accumulation_steps=2)), _data()
    ),
    "moving average of the weights": Case(
        lambda: dense(_optimizer("SGD", learning_rate=0.1, use_ema=True, ema_momentum=0.5)), _data()
    ),
    "run eagerly": Case(lambda: dense("sgd", run_eagerly=True), _data(epochs=1, validation_data=_VALIDATION)),
    "XLA asked for": Case(lambda: dense("sgd", jit_compile=True), _data(epochs=1)),
    "mixed float16": Case(_mixed("mixed_float16"), _data(), tolerance=5e-3, metric_tolerance=2e-2),
    "mixed bfloat16": Case(_mixed("mixed_bfloat16"), _data(), tolerance=2e-2, metric_tolerance=5e-2),
    "float64 weights": Case(_double, _data(), tolerance=2e-5),
    "learning rate schedule": Case(_scheduled, _data()),
    "callbacks set the learning rate": Case(lambda: dense("sgd"), _data(epochs=4), callbacks=_rate_callbacks),
    "early stopping": Case(
        lambda: dense("sgd"), _data(epochs=9, validation_data=_VALIDATION), callbacks=_stopping_callbacks, sizes=(1, 2)
    ),
    "many metrics": Case(
        lambda: dense("sgd", _loss("CategoricalCrossentropy", "mean"), metrics=_many_metrics()),
        {
            **_data(validation_data=(_VALIDATION[0], np.eye(3, dtype="float32")[_VALIDATION[1]])),
            "y": np.eye(3)[digits(50)[1]],
        },
    ),
    "a log beside metrics with variables of their own": Case(
        _told_besides, _data(validation_data=_VALIDATION), by_function=True
    ),
}
if tuple(map(int, version("keras").split(".")[:2])) >= (3, 14):  # in earlier versions, it is a sum over the examples
    CASES["activity regularizer"] = Case(_penalized_activity, _data(validation_data=_VALIDATION))


def _ignoring(kind: int) -> Any:
    import keras

    return keras.losses.SparseCategoricalCrossentropy(ignore_class=kind)


def _loss(name: str, reduction: str) -> Any:
    import keras

    return getattr(keras.losses, name)(reduction=reduction)


def _many_metrics() -> list[Any]:
    import keras

    metrics = keras.metrics
    return [
        metrics.AUC(name="auc"),
        metrics.Precision(name="precision"),
        metrics.F1Score(average="macro", name="f1"),
        metrics.RootMeanSquaredError(name="rmse"),
        metrics.OneHotMeanIoU(3, name="iou"),
        metrics.R2Score(name="r2"),
        metrics.TopKCategoricalAccuracy(2, name="top"),
    ]
