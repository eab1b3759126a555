"""Tests of the Keras callbacks on two tasks: their effect on weights, logs and rates, and what viewers see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ..backend.task.gang import FakeContext, run_gang
from .tasks import begin, dense, numbers, shares


def _recording() -> Any:
    import keras

    class Recording(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.rates: list[float] = []
            self.epochs: list[dict[str, float]] = []

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.rates.append(float(self.model.optimizer.learning_rate))

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.epochs.append(dict(logs))

    return Recording()


def _fitted(ctx: FakeContext, built: bool) -> dict[str, Any]:
    """Train for four epochs, from different weights on each task, with all of Horovod's callbacks and others."""
    import keras

    hvd = begin(ctx)
    keras.utils.set_random_seed(7 + ctx.rank)
    layers = [keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(3, activation="softmax")]
    model = dense() if built else keras.Sequential(layers)
    rate = 0.1 * hvd.size()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(rate, momentum=0.9))
    with pytest.warns(UserWarning, match="experimental_run_tf_function"):
        model.compile(
            optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"], experimental_run_tf_function=False
        )
    before, after = _recording(), _recording()
    callbacks = [
        before,
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(rate, warmup_epochs=2, verbose=1),
        hvd.callbacks.LearningRateScheduleCallback(rate, 0.5, start_epoch=2),
        after,
    ]
    x, y = numbers()
    mine = [np.concatenate(shares(data, ctx.rank, ctx.size)) for data in (x, y)]
    history = model.fit(
        *mine, batch_size=8, epochs=4, shuffle=False, verbose=0, callbacks=callbacks, validation_data=mine
    )
    return {
        "weights": [v.numpy() for v in [*model.variables, *optimizer.variables()]],
        "rates": after.rates,
        "own": before.epochs,
        "average": after.epochs,
        "history": history.history,
        "points": ctx.points,
        "epochs": ctx.epochs,
        "progress": ctx.progressed,
        "lr": float(optimizer.lr),
    }


@pytest.fixture(scope="module")
def tasks() -> list[dict[str, Any]]:
    return run_gang(2, lambda ctx: _fitted(ctx, built=True))


def test_every_task_has_the_same_weights(tasks: list[dict[str, Any]]) -> None:
    for one, other in zip(tasks[0]["weights"], tasks[1]["weights"], strict=True):
        assert np.array_equal(one, other)


def test_weights_of_a_model_that_fit_builds_on_one_task() -> None:
    first, second = run_gang(2, lambda ctx: _fitted(ctx, built=ctx.rank == 0)["weights"])
    for one, other in zip(first, second, strict=True):
        assert np.array_equal(one, other)


def test_logs_are_averaged_in_place(tasks: list[dict[str, Any]]) -> None:
    for epoch in range(4):
        own = [task["own"][epoch] for task in tasks]
        assert own[0]["loss"] != own[1]["loss"]
        for task in tasks:
            for metric in ("loss", "accuracy", "val_loss", "val_accuracy"):
                assert task["average"][epoch][metric] == pytest.approx((own[0][metric] + own[1][metric]) / 2)
            assert task["history"]["loss"][epoch] == task["average"][epoch]["loss"]
    assert tasks[0]["history"]["lr"] == pytest.approx([0.15, 0.2, 0.2, 0.1])


def test_the_rate_warms_up_batch_by_batch(tasks: list[dict[str, Any]]) -> None:
    warm = [0.1 + 0.1 * (batch + 1) / 12 for batch in range(12)]
    for task in tasks:
        assert task["rates"] == pytest.approx(warm + 6 * [0.2] + 6 * [0.1])
        assert task["lr"] == pytest.approx(0.1)  # optimizer.lr, as in Keras 2


def test_viewers_see_the_training(tasks: list[dict[str, Any]]) -> None:
    for rank, task in enumerate(tasks):
        losses = [(step, values["loss"]) for step, values in task["points"] if "loss" in values]
        assert [step for step, _ in losses] == list(range(1, 25))
        assert [v["learning_rate"] for _, v in task["points"] if "learning_rate" in v] == pytest.approx(task["rates"])
        validations = [values["val_loss"] for _, values in task["points"] if "val_loss" in values]
        assert validations == ([epoch["val_loss"] for epoch in task["average"]] if rank == 0 else [])
        assert [(epoch, step) for epoch, step, _ in task["epochs"]] == [(0, 6), (1, 12), (2, 18), (3, 24)]
        assert task["epochs"][3][2]["loss"] == task["average"][3]["loss"]
        assert task["progress"][-1] == (24, 24)


def _other_metrics(ctx: FakeContext) -> None:
    hvd = begin(ctx)
    callback = hvd.callbacks.MetricAverageCallback()
    callback.on_epoch_end(0, {"loss": 1.0} if ctx.rank == 0 else {"loss": 1.0, "val_loss": 2.0})


def test_metrics_that_differ_are_named() -> None:
    with pytest.raises(ValueError, match=r"got \['loss'\] on rank 0, \['loss', 'val_loss'\] on rank 1"):
        run_gang(2, _other_metrics)


def _momentum(ctx: FakeContext) -> tuple[list[float], list[float]]:
    """Train a weight whose gradient is always 1, with a new rate in each batch. Return actual and expected values."""
    import keras

    hvd = begin(ctx)
    found: list[float] = []

    class Reading(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            found.append(float(model.weights[0].numpy()[0, 0]))

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss=lambda y, predicted: predicted)
    schedule = hvd.callbacks.LearningRateScheduleCallback(0.1, lambda epoch: 1 + epoch, staircase=False)
    model.fit(np.ones((8, 1)), np.ones((8, 1)), batch_size=2, epochs=2, verbose=0, callbacks=[schedule, Reading()])

    expected, weight, velocity, rate = [], 0.0, 0.0, 0.1
    for batch in range(8):
        new = 0.1 * (1 + batch / 4)
        velocity = 0.9 * (new / rate) * velocity - new
        weight, rate = weight + velocity, new
        expected.append(weight)
    return found, expected


def test_momentum_is_corrected_for_the_change_of_the_rate() -> None:
    ((found, expected),) = run_gang(1, _momentum)
    assert found == pytest.approx(expected, rel=1e-5)
