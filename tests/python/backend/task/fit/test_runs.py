"""Tests of what is specific to several tasks: own datasets, stopping, callbacks, statistics, and failures."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.errors import InvalidInput

from ..gang import FakeContext, run_gang
from .cases import dense, digits
from .comparison import fit


def sgd() -> Any:
    import keras

    keras.utils.set_random_seed(3)
    return dense(keras.optimizers.SGD(0.1))


# -- datasets of each task's own -----------------------------------------------------------------------------------


def _batches(ctx: FakeContext, sizes: list[list[int]]) -> tuple[Any, Any]:
    """Return this task's batches, and the number of examples of all tasks.

    The batches have ``sizes[rank]`` examples, which are taken from the common examples step by step.
    """
    x, y = digits(200)
    start, mine = 0, []
    for step in range(max(map(len, sizes))):
        for rank, own in enumerate(sizes):
            size = own[step] if step < len(own) else 0
            if rank == ctx.rank and size:
                mine.append((x[start : start + size], y[start : start + size]))
            start += size
    return mine, start


def _dataset(ctx: FakeContext, sizes: list[list[int]], length: str) -> Any:
    import tensorflow as tf

    mine, _ = _batches(ctx, sizes)
    signature = (tf.TensorSpec((None, 6), tf.float32), tf.TensorSpec((None,), tf.int64))
    dataset = tf.data.Dataset.from_generator(lambda: iter(mine), output_signature=signature)
    return dataset.apply(tf.data.experimental.assert_cardinality(len(mine))) if length == "known" else dataset


UNEVEN = [[4, 3, 2], [4, 4, 4, 4, 1], [2]]


def own_datasets(length: str, **compiled: Any) -> Callable[[FakeContext], Any]:
    def program(ctx: FakeContext) -> Any:
        import keras

        def model() -> Any:
            keras.utils.set_random_seed(3)
            return dense(keras.optimizers.SGD(0.1), **compiled)

        sizes = UNEVEN[: ctx.size]
        data_fn = lambda ctx: _dataset(ctx, sizes, length)  # noqa: E731
        here, result = fit(ctx, "own", model, data_fn, epochs=2, validation_data=data_fn)
        return here.points, here.progressed, result and (result.weights, result.history)

    return program


@cache
def in_one_process(size: int) -> Any:
    """Return the weights and history of one process that trains on the same batches as ``size`` tasks."""
    return run_gang(1, same_in_one_process(size))[0]


def same_in_one_process(size: int) -> Callable[[FakeContext], Any]:
    def program(ctx: FakeContext) -> Any:
        model = sgd()
        x, y = digits(200)
        history: dict[str, list[float]] = {}
        for _ in range(2):
            start = 0
            for step in range(max(map(len, UNEVEN[:size]))):
                count = sum(own[step] for own in UNEVEN[:size] if step < len(own))
                model.train_on_batch(x[start : start + count], y[start : start + count])
                start += count
            logs = model.evaluate(x[:start], y[:start], return_dict=True, verbose=0)
            for metric, value in logs.items():
                history.setdefault(f"val_{metric}", []).append(value)
        return model.get_weights(), history

    return program


@pytest.mark.parametrize(
    ("size", "length", "compiled"),
    [
        (1, "unknown", {}),
        (2, "known", {}),
        (3, "unknown", {}),
        (2, "known", {"run_eagerly": True}),
        (2, "unknown", {"steps_per_execution": 2}),
    ],
)
def test_datasets_of_unequal_length_weigh_every_example_once(size: int, length: str, compiled: dict[str, Any]) -> None:
    expected_weights, expected_history = in_one_process(size)
    results = run_gang(size, own_datasets(length, **compiled))
    _, progressed, (weights, history) = results[0]
    for ours, theirs in zip(weights, expected_weights, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-6)
    for metric, values in expected_history.items():
        np.testing.assert_allclose(history[metric], values, rtol=1e-5, err_msg=metric)
    steps = max(map(len, UNEVEN[:size]))
    assert progressed[-1][0] == 2 * steps
    if length == "known":
        assert progressed[-1][1] == 2 * steps
    assert len({tuple(step for step, values in points if "learning_rate" in values) for points, *_ in results}) == 1


def test_endless_datasets_need_steps_per_epoch() -> None:
    def program(ctx: FakeContext) -> Any:
        endless = lambda ctx: _dataset(ctx, UNEVEN[:2], "known").repeat()  # noqa: E731
        with pytest.raises(InvalidInput, match="steps_per_epoch"):
            fit(ctx, "without", sgd, endless)
        here, _ = fit(ctx, "with", sgd, endless, steps_per_epoch=4, epochs=2)
        return [step for step, values in here.points if "loss" in values]

    assert run_gang(2, program) == [list(range(1, 9))] * 2


# -- stopping and callbacks ----------------------------------------------------------------------------------------


def stop_and_callbacks(ctx: FakeContext) -> dict[str, Any]:
    import keras

    x, y = digits(64)
    seen: dict[str, Any] = {}

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 2:
                self.model.stop_training = True

    here, _ = fit(ctx, "callback", sgd, x, y, batch_size=4, epochs=3, callbacks=[Stop()], validation_data=(x, y))
    seen["callback"] = [step for step, values in here.points if "learning_rate" in values], len(here.epochs)

    asked = dataclasses.replace(ctx, stop_at_step=5 if ctx.rank == 1 else 0)
    here, result = fit(asked, "asked", sgd, x, y, batch_size=4, epochs=3)
    seen["asked"] = [step for step, values in here.points if "learning_rate" in values], bool(result)

    class Everywhere(keras.callbacks.Callback):
        run_on_all_tasks = True

        def __init__(self) -> None:
            super().__init__()
            self.epochs: list[int] = []

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.epochs.append(epoch)
            (ctx.run_dir / f"everywhere-{ctx.rank}-{epoch}").touch()

    class Meddling(keras.callbacks.Callback):
        """A callback that changes weights on the chief and evaluates there; the others must follow without waiting."""

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.model.layers[0].bias.assign(self.model.layers[0].bias + 0.5)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.evaluate(x[:9], y[:9], verbose=0)
            self.model.set_weights([w * 0.5 for w in self.model.get_weights()])

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.model.optimizer.learning_rate = 0.01 * (batch + 1)

    callbacks = [Everywhere(), Meddling()]
    here, _ = fit(ctx, "meddling", sgd, x, y, batch_size=16, epochs=2, callbacks=callbacks)
    seen["rates"] = [round(values["learning_rate"], 6) for _, values in here.points if "loss" in values]
    seen["notes"] = here.notes
    return seen


def test_stopping_is_agreed_and_callbacks_of_the_chief_reach_all() -> None:
    results = run_gang(2, stop_and_callbacks)
    for result in results:
        assert result["callback"][0] == [1, 2, 3, 4]  # all tasks learn of the stop in the next step
        assert result["asked"][0] == results[0]["asked"][0]
        assert 5 <= len(result["asked"][0]) <= 7
        assert result["rates"] == [0.01, 0.02, 0.03, 0.04] * 2
        assert [note for note in result["notes"] if note[0] != "info"] == []
    assert results[0]["callback"][1] == 1
    assert results[0]["asked"][1]
    assert ("info", "Equal weights", "All 2 tasks held the same weights after each of 2 epochs") in results[0]["notes"]


# -- what tasks estimate from their own examples -------------------------------------------------------------------


def statistics(transport: str) -> Callable[[FakeContext], Any]:
    def program(ctx: FakeContext) -> Any:
        import keras

        from jupyter_dtf.schema.strategy import AllReduce

        def model() -> Any:
            layers = [
                keras.Input((6,)),
                keras.layers.Dense(5),
                keras.layers.BatchNormalization(momentum=0.5),
                keras.layers.Dropout(0.5),
                keras.layers.Dense(3, activation="softmax"),
            ]
            model = keras.Sequential(layers)
            model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
            return model

        x, y = digits(25)
        strategy = AllReduce(transport=transport)
        here, result = fit(ctx, "bn", model, x, y, batch_size=8, epochs=3, strategy=strategy, validation_data=(x, y))
        return here.notes, here.epochs, result and result.weights

    return program


@pytest.mark.parametrize("transport", ["shm", "ring"])
def test_moving_statistics_are_averaged_and_weights_stay_equal(transport: str) -> None:
    results = run_gang(3, statistics(transport))
    notes, epochs, weights = results[0]
    assert notes == [("info", "Equal weights", "All 3 tasks held the same weights after each of 3 epochs")]
    assert [epoch for epoch, *_ in epochs] == [0, 1, 2]
    assert set(epochs[0][2]) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert all(np.isfinite(w).all() for w in weights)
    assert not np.allclose(weights[4], 0), "the moving mean has moved"


def test_weights_that_drift_apart_are_an_error() -> None:
    def program(ctx: FakeContext) -> Any:
        import keras

        def model() -> Any:
            rank = ctx.rank

            class Drifting(keras.Sequential):
                def train_step(self, data: Any) -> Any:
                    logs = super().train_step(data)
                    self.layers[0].bias.assign_add(self.layers[0].bias * 0 + rank)
                    return logs

            model = Drifting([keras.Input((6,)), keras.layers.Dense(3, activation="softmax")])
            model.compile("sgd", "sparse_categorical_crossentropy")
            return model

        x, y = digits(20)
        error = ""
        try:
            fit(ctx, "drift", model, x, y)
        except RuntimeError as raised:
            error = str(raised)
        return error

    for error in run_gang(2, program):
        assert "After epoch 1 the weights differ between the tasks" in error
        assert "bias" in error


def test_the_order_of_examples_changes_by_epoch_and_is_everyones() -> None:
    def program(ctx: FakeContext) -> Any:
        import keras
        import tensorflow as tf

        class Seen(keras.Model):
            def __init__(self) -> None:
                super().__init__()
                self.out = keras.layers.Dense(1)

            def call(self, x: Any) -> Any:
                tf.numpy_function(lambda v: seen.append(v[:, 0].astype(int).tolist()), [x], [])
                return self.out(x)

        def model() -> Any:
            model = Seen()
            model.compile("sgd", "mse")
            return model

        seen: list[list[int]] = []
        x = np.arange(10, dtype="float32")[:, None]
        fit(ctx, "order", model, x, x, batch_size=4, epochs=2, check=False)
        return seen[:6]  # only the calls of the two epochs count

    tasks = run_gang(2, program)
    steps = [first + second for first, second in zip(*tasks, strict=True)]
    assert [len(step) for step in steps] == [4, 4, 2] * 2
    first, second = [*steps[0], *steps[1], *steps[2]], [*steps[3], *steps[4], *steps[5]]
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second
    assert first != list(range(10))


# -- failures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["raise", "die"])
def test_a_task_that_fails_does_not_leave_the_others_waiting(how: str) -> None:
    def program(ctx: FakeContext) -> Any:
        import os

        import keras

        class Fail(keras.callbacks.Callback):
            run_on_all_tasks = True

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                if ctx.rank == 1 and batch == 3:
                    if how == "die":
                        os._exit(3)
                    raise ValueError("on purpose")

        x, y = digits(64)
        try:
            fit(ctx, "failing", sgd, x, y, batch_size=4, callbacks=[Fail()])
        except Exception as error:
            if ctx.rank == 1:
                return "the failing one"
            return f"{type(error).__name__}: {error}"
        return "nothing happened"

    survivor, failing = run_gang(2, program, may_die=how == "die")
    assert failing == ("the failing one" if how == "raise" else None)
    assert "The task worker:1 " in survivor
    assert ("has failed while other tasks were waiting" if how == "raise" else "has died") in survivor


def test_a_train_step_that_applies_no_optimizer_is_refused() -> None:
    def program(ctx: FakeContext) -> Any:
        import keras

        def model() -> Any:
            class Idle(keras.Sequential):
                def train_step(self, data: Any) -> Any:
                    return {"loss": keras.ops.mean(self(data[0]))}

            model = Idle([keras.Input((6,)), keras.layers.Dense(3)])
            model.compile("sgd", "mse")
            return model

        with pytest.raises(InvalidInput, match="calls neither"):
            fit(ctx, "idle", model, *digits(20))

    run_gang(2, program)
