"""Rows for every optimizer, loss, metric and callback of Keras."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from . import data
from .rows import Trial, slug


def exported(module: str, base: str) -> dict[str, Any]:
    """Return the classes that ``keras.<module>`` exports and that derive from its ``base``, keyed by name, without the
    base.
    """
    import keras

    found = vars(getattr(keras, module))
    kind = found[base]
    classes = [each for each in found.values() if inspect.isclass(each) and issubclass(each, kind) and each is not kind]
    return {each.__name__: each for each in sorted(classes, key=lambda each: each.__name__)}


def _keras() -> Any:
    import keras

    return keras


# -- optimizers --------------------------------------------------------------------------------------------------------

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "Adadelta": lambda: _keras().optimizers.Adadelta(1.0),
    "Adafactor": lambda: _keras().optimizers.Adafactor(0.02),
    "Adagrad": lambda: _keras().optimizers.Adagrad(0.05),
    "Adam": lambda: _keras().optimizers.Adam(0.01, epsilon=1e-4),
    "AdamW": lambda: _keras().optimizers.AdamW(0.01, weight_decay=0.1, epsilon=1e-4),
    "Adamax": lambda: _keras().optimizers.Adamax(0.01, epsilon=1e-4),
    "Ftrl": lambda: _keras().optimizers.Ftrl(0.1),
    "Lamb": lambda: _keras().optimizers.Lamb(0.01, epsilon=1e-4),
    "Lion": lambda: _keras().optimizers.Lion(0.002),
    "LossScaleOptimizer": lambda: _keras().optimizers.LossScaleOptimizer(
        _keras().optimizers.SGD(0.1), initial_scale=2.0**10, dynamic_growth_steps=3
    ),
    "MultiOptimizer": lambda: _multi(),  # noqa: PLW0108
    "Muon": lambda: _keras().optimizers.Muon(0.01),
    "Nadam": lambda: _keras().optimizers.Nadam(0.01, epsilon=1e-4),
    "RMSprop": lambda: _keras().optimizers.RMSprop(0.01, epsilon=1e-4),
    "SGD": lambda: _keras().optimizers.SGD(0.1),
    "ScheduleFreeAdamW": lambda: _keras().optimizers.ScheduleFreeAdamW(0.01, epsilon=1e-4),
    # additional options of optimizers
    "Adam, amsgrad": lambda: _keras().optimizers.Adam(0.01, amsgrad=True, epsilon=1e-4),
    "Adam, clipnorm": lambda: _keras().optimizers.Adam(0.01, clipnorm=0.1, epsilon=1e-4),
    "Adam, gradient accumulation": lambda: _keras().optimizers.Adam(0.01, gradient_accumulation_steps=2, epsilon=1e-4),
    "RMSprop, centered, momentum": lambda: _keras().optimizers.RMSprop(0.01, momentum=0.5, centered=True, epsilon=1e-3),
    "SGD, clipvalue": lambda: _keras().optimizers.SGD(0.1, clipvalue=0.01),
    "SGD, cosine decay": lambda: _keras().optimizers.SGD(_keras().optimizers.schedules.CosineDecay(0.2, 8)),
    "SGD, global_clipnorm": lambda: _keras().optimizers.SGD(0.1, global_clipnorm=0.1),
    "SGD, moving average": lambda: _keras().optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5),
    "SGD, moving average overwrites every 3 steps": lambda: _keras().optimizers.SGD(
        0.1, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=3
    ),
    "SGD, nesterov": lambda: _keras().optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "SGD, weight decay except for biases": lambda: _without_decay_of_biases(),  # noqa: PLW0108
}


def _multi() -> Any:
    keras = _keras()
    sgd, adam = keras.optimizers.SGD(0.1), keras.optimizers.Adam(0.01, epsilon=1e-4)
    return keras.optimizers.MultiOptimizer(keras.optimizers.OptimizerMap(sgd, {"table/.*": adam}))


def _without_decay_of_biases() -> Any:
    optimizer = _keras().optimizers.SGD(0.1, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return optimizer


def _optimized(rows: Sequence[str]) -> Any:
    """Return a model with an embedding that is looked up per example, and two dense layers."""
    keras = _keras()
    keras.utils.set_random_seed(7)
    layers = keras.layers
    words, numbers = keras.Input((6,), dtype="int32", name="words"), keras.Input((64,), name="numbers")
    table = layers.GlobalAveragePooling1D()(layers.Embedding(17, 5, name="table")(words))
    hidden = layers.Dense(7, activation="tanh", name="hidden")(layers.Concatenate()([table, numbers]))
    model = keras.Model({"words": words, "numbers": numbers}, layers.Dense(data.CLASSES, name="out")(hidden))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(OPTIMIZERS[rows[0]](), loss, metrics=["accuracy"])
    return model


def _words_and_numbers(rows: Sequence[str]) -> dict[str, Any]:
    return {"x": {"words": data.tokens(), "numbers": data.flat()}, "y": data.classes(), **data.FIT}


# -- losses ------------------------------------------------------------------------------------------------------------

Targets = Callable[[], Any]


def _signs() -> Any:
    return np.sign(data.target()).astype("float32")


def _positive() -> Any:
    return np.abs(data.target()) + 0.5


def _labels() -> Any:
    return data.tokens()[:, :3] % 3 + 1


def _soft() -> Any:
    return (data.one_hot() + 0.1) / 2.0


LOSSES: dict[str, tuple[str, dict[str, Any], Targets, str]] = {
    # class, arguments, targets, activation of the output
    "BinaryCrossentropy": ("BinaryCrossentropy", {"label_smoothing": 0.1}, data.one_hot, "sigmoid"),
    "BinaryFocalCrossentropy": ("BinaryFocalCrossentropy", {"gamma": 1.0}, data.one_hot, "sigmoid"),
    "CTC": ("CTC", {}, _labels, "linear"),
    "CategoricalCrossentropy": ("CategoricalCrossentropy", {"from_logits": True}, data.one_hot, "linear"),
    "CategoricalFocalCrossentropy": ("CategoricalFocalCrossentropy", {}, data.one_hot, "softmax"),
    "CategoricalGeneralizedCrossEntropy": ("CategoricalGeneralizedCrossEntropy", {}, data.classes, "softmax"),
    "CategoricalHinge": ("CategoricalHinge", {}, data.one_hot, "linear"),
    "Circle": ("Circle", {}, data.classes, "linear"),
    "CosineSimilarity": ("CosineSimilarity", {}, data.one_hot, "linear"),
    "Dice": ("Dice", {}, data.one_hot, "sigmoid"),
    "Dice, per example": ("Dice", {"axis": (1,)}, data.one_hot, "sigmoid"),
    "Hinge": ("Hinge", {}, _signs, "linear"),
    "Huber": ("Huber", {"delta": 0.5}, data.target, "linear"),
    "KLDivergence": ("KLDivergence", {}, _soft, "softmax"),
    "LogCosh": ("LogCosh", {}, data.target, "linear"),
    "MeanAbsoluteError": ("MeanAbsoluteError", {}, data.target, "linear"),
    "MeanAbsolutePercentageError": ("MeanAbsolutePercentageError", {}, _positive, "linear"),
    "MeanSquaredError": ("MeanSquaredError", {}, data.target, "linear"),
    "MeanSquaredError, sum": ("MeanSquaredError", {"reduction": "sum"}, data.target, "linear"),
    "MeanSquaredLogarithmicError": ("MeanSquaredLogarithmicError", {}, _positive, "softplus"),
    "Poisson": ("Poisson", {}, _positive, "softplus"),
    "SparseCategoricalCrossentropy": ("SparseCategoricalCrossentropy", {"ignore_class": 3}, data.classes, "softmax"),
    "SquaredHinge": ("SquaredHinge", {}, _signs, "linear"),
    "Tversky": ("Tversky", {}, data.one_hot, "sigmoid"),
    "Tversky, per example": ("Tversky", {"axis": (1,)}, data.one_hot, "sigmoid"),
}


def _losses(rows: Sequence[str]) -> Any:
    """Return a model with an output and a loss for each row."""
    keras = _keras()
    x = keras.Input((64,), name="x")
    outputs, losses = {}, {}
    for row in rows:
        kind, arguments, targets, activation = LOSSES[row]
        keras.utils.set_random_seed(7)
        width = (
            data.CLASSES
            if kind in ("CategoricalGeneralizedCrossEntropy", "SparseCategoricalCrossentropy", "Circle")
            else targets().shape[-1]
        )
        if kind == "CTC":
            y = keras.layers.Dense(24, name=f"{slug(row)}__out")(x)
            y = keras.layers.Reshape((6, 4), name=f"{slug(row)}__steps")(y)
        else:
            y = keras.layers.Dense(width, activation=activation, name=f"{slug(row)}__out")(x)
        if kind == "Circle":
            y = keras.layers.UnitNormalization(name=f"{slug(row)}__unit")(y)
        outputs[slug(row)] = y
        losses[slug(row)] = getattr(keras.losses, kind)(**arguments)
    model = keras.Model(x, outputs)
    large = {"MeanAbsolutePercentageError": 0.01, "MeanSquaredError, sum": 0.05}
    weights = {slug(row): large.get(row, 1.0) for row in rows}
    model.compile(keras.optimizers.SGD(0.05, momentum=0.5), losses, loss_weights=weights)
    return model


def _losses_data(rows: Sequence[str]) -> dict[str, Any]:
    return {"x": data.flat(), "y": {slug(row): LOSSES[row][2]() for row in rows}, **data.FIT}


# -- metrics -----------------------------------------------------------------------------------------------------------

METRICS: dict[str, tuple[dict[str, Any], str]] = {
    # arguments, output
    "AUC": ({}, "likely"), "Accuracy": ({}, "number"), "BinaryAccuracy": ({}, "likely"),
    "BinaryCrossentropy": ({}, "likely"), "BinaryIoU": ({}, "likely"), "CategoricalAccuracy": ({}, "classes"),
    "CategoricalCrossentropy": ({}, "classes"), "CategoricalHinge": ({}, "classes"),
    "ConcordanceCorrelation": ({}, "likely"), "CosineSimilarity": ({}, "classes"),
    "F1Score": ({"average": "macro"}, "classes"), "FBetaScore": ({"beta": 2.0, "average": "micro"}, "classes"),
    "FalseNegatives": ({}, "likely"), "FalsePositives": ({}, "likely"), "Hinge": ({}, "number"),
    "IoU": ({"num_classes": 10, "target_class_ids": [0, 3], "sparse_y_pred": False}, "class"),
    "KLDivergence": ({}, "classes"), "LogCoshError": ({}, "number"), "Mean": ({}, "loose"),
    "MeanAbsoluteError": ({}, "number"), "MeanAbsolutePercentageError": ({}, "number"),
    "MeanIoU": ({"num_classes": 10, "sparse_y_pred": False}, "class"),
    "MeanSquaredError": ({}, "number"), "MeanSquaredLogarithmicError": ({}, "number"),
    "OneHotIoU": ({"num_classes": 10, "target_class_ids": [1, 2]}, "classes"),
    "OneHotMeanIoU": ({"num_classes": 10}, "classes"), "PearsonCorrelation": ({}, "likely"), "Poisson": ({}, "likely"),
    "Precision": ({}, "likely"), "PrecisionAtRecall": ({"recall": 0.5}, "likely"), "R2Score": ({}, "number"),
    "Recall": ({}, "likely"), "RecallAtPrecision": ({"precision": 0.1}, "likely"),
    "RootMeanSquaredError": ({}, "number"),
    "SensitivityAtSpecificity": ({"specificity": 0.5}, "likely"), "SparseCategoricalAccuracy": ({}, "class"),
    "SparseCategoricalCrossentropy": ({}, "class"), "SparseTopKCategoricalAccuracy": ({"k": 3}, "class"),
    "SpecificityAtSensitivity": ({"sensitivity": 0.5}, "likely"), "SquaredHinge": ({}, "number"), "Sum": ({}, "loose"),
    "TopKCategoricalAccuracy": ({"k": 3}, "classes"), "TrueNegatives": ({}, "likely"), "TruePositives": ({}, "likely"),
}  # fmt: skip
METRICS_OUTSIDE = {"MeanMetricWrapper": "the functions among the metrics, such as `Accuracy`, are wrapped by it"}


def _loose(name: str) -> Any:
    """Return a variant of a metric of values that can be compiled with a model: it uses the outputs as its values."""
    keras = _keras()

    class Loose(getattr(keras.metrics, name)):  # type: ignore[misc]
        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
            return super().update_state(keras.ops.abs(y_pred), sample_weight)

    return Loose


def _metrics(rows: Sequence[str]) -> Any:
    """Return a model with an output for each type of metric. The metric of each row is attached to the output that
    suits it.
    """
    keras = _keras()
    keras.utils.set_random_seed(7)
    layers = keras.layers
    x = keras.Input((64,), name="x")
    hidden = layers.Dense(6, activation="tanh")(x)
    outputs = {
        "number": layers.Dense(1, name="number")(hidden),
        "likely": layers.Dense(data.CLASSES, activation="sigmoid", name="likely")(hidden),
        "classes": layers.Dense(data.CLASSES, activation="softmax", name="classes")(hidden),
        "class": layers.Dense(data.CLASSES, activation="softmax", name="class")(hidden),
        "loose": layers.Dense(1, name="loose")(hidden),
    }
    found: dict[str, list[Any]] = {name: [] for name in outputs}
    for row in rows:
        arguments, output = METRICS[row]
        kind = _loose(row) if output == "loose" else getattr(keras.metrics, row)
        found[output].append(kind(name=slug(row), **arguments))
    model = keras.Model(x, outputs)
    losses = {"number": "mse", "likely": "binary_crossentropy", "classes": "categorical_crossentropy",
              "class": "sparse_categorical_crossentropy", "loose": "mse"}  # fmt: skip
    model.compile(keras.optimizers.SGD(0.05), losses, metrics=found)
    return model


def _metrics_data(rows: Sequence[str]) -> dict[str, Any]:
    y = {"number": data.target(), "likely": data.one_hot(), "classes": data.one_hot(), "class": data.classes(),
         "loose": data.target()}  # fmt: skip
    validation = (data.flat()[:14], {name: values[:14] for name, values in y.items()})
    return {"x": data.flat(), "y": y, "validation_data": validation, **data.FIT}


# -- callbacks ---------------------------------------------------------------------------------------------------------

CALLBACKS: dict[str, Callable[[str], Any]] = {
    "BackupAndRestore": lambda directory: _keras().callbacks.BackupAndRestore(f"{directory}/backup"),
    "CSVLogger": lambda directory: _keras().callbacks.CSVLogger(f"{directory}/log.csv"),
    "EarlyStopping": lambda _: _keras().callbacks.EarlyStopping("loss", min_delta=5.0, restore_best_weights=True),
    "History": lambda _: _keras().callbacks.History(),
    "LambdaCallback": lambda _: _keras().callbacks.LambdaCallback(on_epoch_end=_add_to_logs),
    "LearningRateScheduler": lambda _: _keras().callbacks.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1)),
    "ModelCheckpoint": lambda directory: _keras().callbacks.ModelCheckpoint(f"{directory}/model.keras"),
    "ProgbarLogger": lambda _: _keras().callbacks.ProgbarLogger(),
    "ReduceLROnPlateau": lambda _: _keras().callbacks.ReduceLROnPlateau("loss", patience=0, min_delta=5.0),
    "SwapEMAWeights": lambda _: _keras().callbacks.SwapEMAWeights(),
    "TerminateOnNaN": lambda _: _keras().callbacks.TerminateOnNaN(),
}
CALLBACKS_OUTSIDE = {
    "CallbackList": "what holds the callbacks of a training",
    "OrbaxCheckpoint": "needs Orbax, which comes with JAX",
    "RemoteMonitor": "sends the history to a web server",
    "TensorBoard": "needs TensorBoard, which is not part of TensorFlow any more",
}


def _add_to_logs(epoch: int, logs: Any) -> None:
    logs["added"] = float(epoch)


def _called_back(rows: Sequence[str]) -> Any:
    keras = _keras()
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(7, activation="tanh"), keras.layers.Dense(10)])
    averages = {"use_ema": True, "ema_momentum": 0.5} if rows[0] == "SwapEMAWeights" else {}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1, **averages), loss, metrics=["accuracy"])
    return model


def _called_back_data(rows: Sequence[str]) -> dict[str, Any]:
    validation = (data.flat()[:14], data.classes()[:14])
    return {"x": data.flat(), "y": data.classes(), "validation_data": validation, **data.FIT, "epochs": 3}


def _callbacks(row: str, directory: str) -> list[Any]:
    return [CALLBACKS[row](directory)]


# -- all of them -------------------------------------------------------------------------------------------------------


def trials() -> list[Trial]:
    """Return trials: one for each optimizer and callback, one for all losses, and one for all metrics."""
    found = [Trial("optimizers", (row,), _optimized, _words_and_numbers, is_whole=True) for row in OPTIMIZERS]
    found.append(Trial("losses", tuple(LOSSES), _losses, _losses_data))
    found.append(Trial("metrics", tuple(METRICS), _metrics, _metrics_data))
    for row in CALLBACKS:
        own = partial(_callbacks, row)
        found.append(Trial("callbacks", (row,), _called_back, _called_back_data, own, is_whole=True))
    return found
