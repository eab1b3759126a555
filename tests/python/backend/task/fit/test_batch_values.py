"""Tests of the values reported for batches and epochs, with every strategy, compared with Keras's own logs."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.schema.strategy import AllReduce, InGraph, ParameterServer

from ..gang import FakeContext, run_gang
from .cases import digits
from .comparison import fit
from .pipeline.placed import fit as placed_fit

pytestmark = pytest.mark.timeout(120)

EXAMPLES, BATCH = 50, 12
"""The last of 5 batches has 2 examples."""


def model(metrics: Any = ("accuracy", "mae"), rate: float = 0.0, **compiled: Any) -> Any:
    """Return a model. With a rate of 0, a batch has the same loss whenever and wherever it is computed."""
    import keras

    keras.utils.set_random_seed(3)
    network = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1, activation="sigmoid")])
    network.compile(keras.optimizers.SGD(rate), "binary_crossentropy", metrics=list(metrics), **compiled)
    return network


def data() -> tuple[Any, Any]:
    x, y = digits(EXAMPLES)
    return x, (y % 2).astype("float32")[:, None]


def reported(points: list[tuple[float, dict[str, float]]], metric: str) -> dict[float, float]:
    return {step: values[metric] for step, values in points if metric in values}


def of_batches(own: Any, size: int) -> dict[str, list[float]]:
    """Return the loss and metrics of each batch of ``size`` examples by itself, computed in one process."""
    x, y = data()
    found: dict[str, list[float]] = {}
    for start in range(0, EXAMPLES, size):
        for name, value in own.evaluate(
            x[start : start + size], y[start : start + size], 64, 0, return_dict=True
        ).items():
            found.setdefault(name, []).append(value)
    return found


STRATEGIES = {"allreduce": AllReduce(), "ps": ParameterServer(sync=True), "mirrored": InGraph()}


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES.keys())
def test_a_batch_has_its_own_loss_and_an_epoch_keras_s(strategy: Any) -> None:
    def program(ctx: FakeContext) -> Any:
        x, y = data()
        more = {"validation_data": (x, y)}
        here, result = fit(
            ctx, "own", model, x, y, strategy=strategy, batch_size=BATCH, epochs=2, shuffle=False, **more
        )
        return (
            here.points,
            here.epochs,
            result and result.history,
            of_batches(model(), BATCH) if here.is_chief else None,
        )

    servers = 1 if isinstance(strategy, ParameterServer) else 0
    results = run_gang(2 + servers, program, servers=servers)
    points, epochs, history, alone = results[0]
    for metric in ("loss", "accuracy", "mae"):
        # A batch's loss is the mean of its parts' losses, weighted by their numbers of examples.
        tasks = [reported(task[0], metric) for task in results[: 2 if not isinstance(strategy, InGraph) else 1]]
        shares = 1 if isinstance(strategy, InGraph) else 2
        for number in range(5):
            size = min(BATCH, EXAMPLES - number * BATCH)
            parts = [size * (rank + 1) // shares - size * rank // shares for rank in range(shares)]
            for step in (number + 1, number + 6):  # the second epoch repeats the first: nothing is carried over
                mean = sum(task[step] * part for task, part in zip(tasks, parts, strict=True)) / size
                np.testing.assert_allclose(mean, alone[metric][number], rtol=2e-5, err_msg=f"{metric} {step}")
        ends = reported(points, f"epoch_{metric}")
        assert ends == {5.0: history[metric][0], 10.0: history[metric][1]}
        assert reported(points, f"val_{metric}") == {
            5.0: history[f"val_{metric}"][0],
            10.0: history[f"val_{metric}"][1],
        }
    assert [set(logs) for _, _, logs in epochs] == [set(history)] * 2  # what run.history is made of


def test_a_pipeline_reports_the_same() -> None:
    def program(ctx: FakeContext) -> Any:
        x, y = data()
        _, here = placed_fit(ctx, model(("accuracy", "AUC")), x, y, batch_size=BATCH, epochs=2, shuffle=False)
        return here and (here.points, here.epochs, of_batches(model(), BATCH))

    points, epochs, alone = run_gang(2, program)[0]
    for metric in ("loss", "accuracy"):
        values = reported(points, metric)
        np.testing.assert_allclose(list(values.values()), 2 * alone[metric], rtol=2e-5, err_msg=metric)
        assert reported(points, f"epoch_{metric}") == {
            5 * (n + 1): logs[metric] for n, (_, _, logs) in enumerate(epochs)
        }
    assert not reported(points, "AUC") and len(reported(points, "running_AUC")) == 10


def test_what_a_batch_has_no_value_of_is_called_running() -> None:
    """Metrics that have no value for a single batch are named ``running_...``; other results are those of the batch."""

    def program(ctx: FakeContext) -> Any:
        import keras
        import tensorflow as tf

        class Own(keras.Model):
            def __init__(self) -> None:
                super().__init__()
                self.out = keras.layers.Dense(1, activation="sigmoid")
                self.seen = keras.metrics.Mean(name="tracker")

            def call(self, x: Any) -> Any:
                return self.out(x)

            def train_step(self, batch: Any) -> dict[str, Any]:
                x, y = batch
                with tf.GradientTape() as tape:
                    loss = self.compute_loss(x, y, self(x, training=True))
                self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
                self.seen.update_state(loss)
                return {"loss": loss, "mean_loss": self.seen.result()}

        def own() -> Any:
            keras.utils.set_random_seed(3)
            made = Own()
            made.compile(keras.optimizers.SGD(0.0), "binary_crossentropy")
            return made

        x, y = data()
        runs = {}
        metrics = ("accuracy", "AUC", "RootMeanSquaredError")
        for name, build in {"own": own, "kinds": lambda: model(metrics)}.items():
            here, _ = fit(ctx, name, build, x, y, batch_size=BATCH, epochs=1, shuffle=False)
            runs[name] = here.points
        here, _ = fit(
            ctx, "many", lambda: model(steps_per_execution=2), x[:48], y[:48], batch_size=BATCH, shuffle=False
        )
        return runs, here.points, of_batches(model(), BATCH), of_batches(model(), 2 * BATCH)

    runs, many, alone, of_two = run_gang(1, program)[0]
    for name in ("loss", "mean_loss"):
        np.testing.assert_allclose(list(reported(runs["own"], name).values()), alone["loss"], rtol=2e-5, err_msg=name)
    assert {name for _, values in runs["kinds"] for name in values} >= {
        "loss", "accuracy", "running_AUC", "running_RootMeanSquaredError", "epoch_AUC"
    }  # fmt: skip
    assert not reported(runs["kinds"], "AUC")
    values = reported(many, "loss")
    assert list(values) == [2, 4]
    np.testing.assert_allclose(list(values.values()), of_two["loss"][:2], rtol=2e-5)


def own_step() -> Any:
    """Return a model whose ``train_step`` also returns a value that is no metric: the mean of the batch's outputs."""
    import keras

    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.out = keras.layers.Dense(1, activation="sigmoid")

        def call(self, x: Any) -> Any:
            return self.out(x)

        def train_step(self, batch: Any) -> dict[str, Any]:
            logs = super().train_step(batch)
            return {**logs, "mean": keras.ops.mean(self(batch[0]))}

    keras.utils.set_random_seed(3)
    made = Own()
    made.compile(keras.optimizers.SGD(0.5), "binary_crossentropy", metrics=["accuracy"])
    return made


HEARD: dict[str, Any] = {
    "metrics": lambda: model(("accuracy", "AUC", "RootMeanSquaredError"), rate=0.5),
    "run eagerly": lambda: model(("accuracy", "AUC"), rate=0.5, run_eagerly=True),
    "two steps at a time": lambda: model(rate=0.5, steps_per_execution=2),
    "a train_step of its own": own_step,
}


@pytest.mark.parametrize("strategy", [AllReduce(), ParameterServer(sync=True)], ids=["allreduce", "ps"])
def test_callbacks_get_the_logs_of_all_tasks(strategy: Any) -> None:
    """The logs are means over the epoch so far, as in Keras. One task has no example of the last batch."""

    def program(ctx: FakeContext) -> Any:
        import keras

        class Heard(keras.callbacks.Callback):
            def __init__(self) -> None:
                super().__init__()
                self.logs: list[dict[str, float]] = []

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                self.logs.append(dict(logs))

        x, y = (part[: 4 * BATCH + 1] for part in data())
        arguments: dict[str, Any] = {"batch_size": BATCH, "epochs": 2, "shuffle": False}
        found = {}
        for name, build in HEARD.items():
            _, result = fit(ctx, name, build, x, y, strategy=strategy, callbacks=[Heard()], **arguments)
            if result is not None:
                alone = Heard()
                build().fit(x, y, verbose=0, callbacks=[alone], **arguments)
                found[name] = pickle.loads(result.callbacks)[0]["logs"], alone.logs
        return found

    servers = 1 if isinstance(strategy, ParameterServer) else 0
    found = run_gang(2 + servers, program, servers=servers)[0]
    assert found.keys() == HEARD.keys()
    for name, (ours, theirs) in found.items():
        assert len(ours) == len(theirs), name
        for our, their in zip(ours, theirs, strict=True):
            assert our == pytest.approx(their, rel=1e-4), name


def test_nan_ends_a_fit_with_keras_s_own_callback_and_stays_a_value_of_its_batch() -> None:
    def program(ctx: FakeContext) -> Any:
        import keras

        x, y = data()
        x[3 * BATCH] = np.nan  # in the fourth batch
        callbacks = [keras.callbacks.TerminateOnNaN()]
        here, result = fit(ctx, "nan", model, x, y, batch_size=BATCH, epochs=3, shuffle=False, callbacks=callbacks)
        return here.points, result and result.history

    results = run_gang(2, program)
    losses = [reported(points, "loss") for points, _ in results]
    # The first task had the NaN; both tasks learn in the next exchange that training must end.
    assert [[step for step, value in loss.items() if np.isnan(value)] for loss in losses] == [[4, 5], [5]]
    assert all(list(loss) == [1, 2, 3, 4, 5] for loss in losses)
    assert np.isnan(results[0][1]["loss"]).all() and len(results[0][1]["loss"]) == 1
