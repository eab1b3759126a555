"""The meaning of the fields of ``dtf.AllReduce`` and of a scaled learning rate, expressed as training in one Keras
process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .cases import Case, dense, digits


def _optimizer(name: str, *args: Any, **arguments: Any) -> Any:
    import keras

    return getattr(keras.optimizers, name)(*args, **arguments)


def _sgd(rate: float = 0.2, **arguments: Any) -> Any:
    return dense(_optimizer("SGD", learning_rate=rate, **arguments))


def _data(examples: int = 50, batch: int = 12, epochs: int = 2, **more: Any) -> dict[str, Any]:
    x, y = digits(examples)
    return {"x": x, "y": y, "batch_size": batch, "epochs": epochs, **more}


def _of_magnitude(size: float) -> Any:
    """Return a model with gradients of about this size, and with updates of the weights that do not depend on it."""
    return dense(_optimizer("SGD", learning_rate=0.2 / size), loss_weights=[size])


def words(optimizer: Any) -> Any:
    """Return a model with an embedding of 9 words, for sentences of 5 words, in which words occur repeatedly."""
    import keras

    model = keras.Sequential(
        [
            keras.Input((5,), dtype="int32"),
            keras.layers.Embedding(9, 4),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile(optimizer, "sparse_categorical_crossentropy")
    return model


def sentences(batch: int = 8) -> dict[str, Any]:
    x = np.random.default_rng(1).integers(0, 9, size=(26, 5))
    return {"x": x, "y": x[:, 0] % 3, "batch_size": batch, "epochs": 2}


def placed_words(
    optimizer: Any, positions: str = "arange", length: int | None = 5, tied: bool = False, **compiled: Any
) -> Any:
    """Return a model of words and their positions, which are looked up once per batch, or as ``positions`` says."""
    import keras
    import tensorflow as tf
    from keras import ops

    class Placed(keras.layers.Layer):
        def __init__(self, positions: str, tied: bool, **arguments: Any) -> None:
            super().__init__(**arguments)
            self.positions, self.tied = positions, tied
            self.words = keras.layers.Embedding(9, 4, name="words")
            self.places = self.words if positions == "one table" else keras.layers.Embedding(7, 4, name="places")

        def get_config(self) -> dict[str, Any]:
            return {**super().get_config(), "positions": self.positions, "tied": self.tied}

        def build(self, shape: Any) -> None:
            self.words.build()
            if self.positions not in ("one table", "joined", "distinct words"):
                self.places.build()

        def call(self, x: Any) -> Any:
            out = ops.mean(self.looked_up(x), 1)
            return ops.softmax(ops.matmul(out, ops.transpose(self.words.embeddings))) if self.tied else out

        def looked_up(self, x: Any) -> Any:
            if self.positions == "distinct words":  # as Keras looks up those of sparse inputs
                distinct, places = tf.unique(tf.reshape(x, [-1]))
                return tf.reshape(tf.gather(self.words(distinct), places), [*tf.unstack(tf.shape(x)), 4])
            words, length = self.words(x), ops.shape(x)[1]
            if self.positions == "by example":
                return words + self.places(ops.ones_like(x) * ops.arange(length))
            if self.positions == "like a sentence":
                return words + self.places(ops.cumsum(ops.ones_like(x[0])) - 1)
            if self.positions == "of a hidden layer":
                return words + self.places(ops.expand_dims(ops.arange(ops.shape(ops.tanh(words) * 2)[-2]), 0))
            if self.positions == "joined":  # one lookup of the words' rows, followed by those of three positions
                rows = self.words(ops.concatenate([ops.reshape(x, (-1,)), ops.arange(3, dtype=x.dtype)], 0))
                return words + ops.mean(rows[-3:], 0)
            return words + self.places(ops.arange(length))

    out = [] if tied else [keras.layers.Dense(3, activation="softmax")]
    model = keras.Sequential([keras.Input((length,), dtype="int32"), Placed(positions, tied), *out])
    model.compile(optimizer, "sparse_categorical_crossentropy", **compiled)
    return model


def _without_dimensions() -> Any:
    """Return a model whose output has the shape (batch,), for which Keras's loss is one number per batch."""
    import keras

    layers = [keras.Input((6,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1), keras.layers.Reshape(())]
    model = keras.Sequential(layers)
    model.compile("sgd", keras.losses.MeanSquaredError(reduction="sum"))
    return model


def _numbers() -> dict[str, Any]:
    x, y = digits(26)
    return {"x": x, "y": y.astype("float32"), "batch_size": 8, "epochs": 2}


def _loss_scaled(**arguments: Any) -> Any:
    inner = _optimizer("SGD", learning_rate=0.2, **arguments)
    return dense(_optimizer("LossScaleOptimizer", inner, initial_scale=2.0**10))


def _two_types(optimizer: Any) -> Any:
    import keras

    layers = [keras.Input((6,)), keras.layers.Dense(4, dtype="float64"), keras.layers.Dense(3, activation="softmax")]
    model = keras.Sequential(layers)
    model.compile(optimizer, "sparse_categorical_crossentropy")
    return model


def warm(tasks: int, step: int, steps: float) -> float:
    """Return the factor by which Goyal et al. multiply the learning rate."""
    return 1 + (tasks - 1) * min(step / steps, 1)


def _warmed_up(rate: Callable[[int], float], steps_per_epoch: int, steps: float) -> Callable[[int], list[Any]]:
    """Return a function that creates callbacks, which set the scaled rate before every batch. ``rate(epoch)`` is the
    unscaled rate, which is recorded.
    """

    def callbacks(tasks: int) -> list[Any]:
        import keras

        class WarmUp(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
                self.epoch = epoch

            def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
                step = self.epoch * steps_per_epoch + batch
                self.model.optimizer.learning_rate = rate(self.epoch) * warm(tasks, step, steps)

            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                logs["learning_rate"] = rate(epoch)

        return [WarmUp()]

    return callbacks


def _scheduler(rate: Callable[[int], float]) -> list[Any]:
    import keras

    return [keras.callbacks.LearningRateScheduler(lambda epoch, _: rate(epoch))]


def _decay(tasks: int = 0, steps: float = 1.0) -> Any:
    """Return a model with SGD and a schedule. If ``tasks`` is not 0, it is scaled for this number of tasks."""
    import keras
    import tensorflow as tf

    decay = keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=3, decay_rate=0.7)

    class Scaled(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step: Any) -> Any:
            return decay(step) * (1 + (tasks - 1) * tf.minimum(tf.cast(step, tf.float32) / steps, 1.0))

    return dense(keras.optimizers.SGD(Scaled() if tasks else decay, momentum=0.5))


STRATEGY_CASES: dict[str, Case] = {
    "sum": Case(
        lambda: _sgd(0.05), _data(), strategy={"op": "sum"}, plain_model=lambda size: _sgd(0.05 * size), sizes=(1, 2, 3)
    ),
    "fp16": Case(_sgd, _data(), strategy={"compression": "fp16"}, tolerance=2e-3, metric_tolerance=1e-2, sizes=(2, 3)),
    "fp16, gradients beyond its range": Case(
        lambda: _of_magnitude(1e9),
        _data(epochs=1),
        strategy={"compression": "fp16"},
        tolerance=2e-3,
        metric_tolerance=1e-2,
    ),
    "fp16, gradients below its range": Case(
        lambda: _of_magnitude(1e-12),
        _data(epochs=1),
        strategy={"compression": "fp16", "fusion_bytes": 64},
        tolerance=2e-3,
        metric_tolerance=1e-2,
    ),
    "bf16": Case(
        lambda: _two_types("sgd"), _data(), strategy={"compression": "bf16"}, tolerance=1e-2, metric_tolerance=5e-2
    ),
    "a bucket for each gradient": Case(
        lambda: _two_types("adam"), _data(), strategy={"fusion_bytes": 1}, tolerance=2e-5, sizes=(2, 3)
    ),
    "global norm clipped": Case(
        _sgd, _data(), strategy={"clip_norm": 0.1}, plain_model=lambda size: _sgd(global_clipnorm=0.1), sizes=(1, 2)
    ),
    "global norm of a scaled loss clipped": Case(
        _loss_scaled,
        _data(),
        strategy={"clip_norm": 0.1},
        plain_model=lambda size: _loss_scaled(global_clipnorm=0.1),
    ),
    "two passes a step": Case(
        _sgd,
        _data(examples=49),  # 12, 12 | 12, 12 | 1, of which at least one task gets nothing
        strategy={"backward_passes_per_step": 2},
        plain_fit={"batch_size": 24},
        updates=[1, 3, 4, 6, 8, 9],
        sizes=(1, 2, 3),
    ),
    "two passes a step, as Keras adds gradients up": Case(
        _sgd,
        _data(examples=48),
        strategy={"backward_passes_per_step": 2},
        plain_model=lambda size: _sgd(gradient_accumulation_steps=2),
    ),
    "passes and a step of several batches": Case(
        lambda: dense("sgd", steps_per_execution=2),
        _data(),  # 12, 12, 12 | 12, 2
        strategy={"backward_passes_per_step": 3},
        plain_model=lambda size: dense("sgd"),
        plain_fit={"batch_size": 36},
        updates=[1, 2, 4, 5],
        same_history=False,  # Keras's metrics are for whole executions
    ),
    "everything at once": Case(
        lambda: words(_optimizer("SGD", learning_rate=0.1, momentum=0.9)),
        sentences(batch=4),  # 4, 4 | 4, 4 | 4, 4 | 2
        strategy={
            "op": "sum",
            "backward_passes_per_step": 2,
            "clip_norm": 0.1,
            "fusion_bytes": 32,
            "compression": "fp16",
        },
        plain_model=lambda size: words(_optimizer("SGD", learning_rate=0.1, momentum=0.9, global_clipnorm=0.1)),
        plain_fit={"batch_size": 8},
        updates=[1, 3, 5, 6, 8, 10, 12, 13],
        tolerance=2e-3,
        metric_tolerance=1e-2,
    ),
    "rows of an embedding, momentum": Case(
        lambda: words(_optimizer("SGD", learning_rate=0.5, momentum=0.9)), sentences(), sizes=(2, 3)
    ),
    "rows of an embedding, adam": Case(lambda: words("adam"), sentences(), tolerance=2e-5),
    "rows of an embedding, two passes": Case(
        lambda: words("adam"),
        sentences(batch=4),
        strategy={"backward_passes_per_step": 2},
        plain_fit={"batch_size": 8},
        updates=[1, 3, 5, 6, 8, 10, 12, 13],
        tolerance=2e-5,
    ),
    "positions": Case(lambda: placed_words("adam"), sentences()),
    "positions, none in the last share": Case(lambda: placed_words("adam"), sentences(batch=5), sizes=(3,)),
    "positions, batches of one size": Case(lambda: placed_words("adam"), sentences(batch=13)),
    "positions by example, batches of one size": Case(lambda: placed_words("adam", "by example"), sentences(batch=13)),
    "positions in sentences of any length": Case(
        lambda: placed_words("adam", "of a hidden layer", None, steps_per_execution=2), sentences()
    ),
    "positions by example": Case(lambda: placed_words("adam", "by example", None), sentences()),
    "positions like a sentence": Case(lambda: placed_words("adam", "like a sentence", None), sentences()),
    "positions and words of one table": Case(lambda: placed_words("adam", "one table"), sentences()),
    "positions and words in one lookup": Case(lambda: placed_words("adam", "joined"), sentences()),
    "a sum, of one loss per batch": Case(_without_dimensions, _numbers(), tolerance=5e-6),
    "distinct words": Case(lambda: placed_words("adam", "distinct words"), sentences()),
    "distinct words, run eagerly": Case(lambda: placed_words("adam", "distinct words", run_eagerly=True), sentences()),
    "distinct words, batches of one size": Case(lambda: placed_words("adam", "distinct words"), sentences(batch=13)),
    "positions, words tied to the output": Case(lambda: placed_words("adam", tied=True), sentences()),
    "positions, run eagerly": Case(lambda: placed_words("adam", "one table", run_eagerly=True), sentences(batch=13)),
    "positions, two passes": Case(
        lambda: placed_words("adam"),
        sentences(batch=4),
        strategy={"backward_passes_per_step": 2, "fusion_bytes": 32},
        plain_fit={"batch_size": 8},
        updates=[1, 3, 5, 6, 8, 10, 12, 13],
    ),
    "an embedding's whole table": Case(lambda: words("sgd"), sentences(), strategy={"sparse": "dense"}),
    "two passes a step, an epoch of one": Case(
        _sgd,
        _data(examples=30, batch=6, epochs=4, steps_per_epoch=2),
        strategy={"backward_passes_per_step": 2},
        plain_fit={"batch_size": 12, "steps_per_epoch": 1},
        updates=[1, 3, 4, 6],
    ),
    "learning rate scaled at once": Case(
        lambda: _sgd(0.05),
        _data(),
        fit_over_tasks={"scale_lr": True, "warmup_epochs": 0},
        plain_model=lambda size: _sgd(0.05 * size),
    ),
    "learning rate scaled and warmed up": Case(
        lambda: _sgd(0.05),
        _data(epochs=3),
        callbacks=lambda: _scheduler(lambda epoch: 0.05),
        fit_over_tasks={"scale_lr": True, "warmup_epochs": 1.6},
        plain_callbacks=_warmed_up(lambda epoch: 0.05, 5, 8),
        sizes=(2, 3),
    ),
    "a callback sets a rate that is warmed up": Case(
        lambda: _sgd(0.01),
        _data(epochs=3),
        callbacks=lambda: _scheduler(lambda epoch: 0.05 * (epoch + 1)),
        fit_over_tasks={"scale_lr": True, "warmup_epochs": 2},
        plain_callbacks=_warmed_up(lambda epoch: 0.05 * (epoch + 1), 5, 10),
    ),
    "a schedule is warmed up": Case(
        _decay,
        _data(),
        fit_over_tasks={"scale_lr": True, "warmup_epochs": 1},
        plain_model=lambda size: _decay(size, 5.0),
    ),
}
