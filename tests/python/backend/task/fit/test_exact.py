"""Tests that optimizers, assigned weights, callbacks, losses and metrics work as in one process, or are rejected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jupyter_dtf.errors import InvalidInput

from ..gang import FakeContext, run_gang
from .cases import CASES, Case, dense, digits
from .comparison import Trained, compare, fit, selected
from .optimizer_cases import OF_KERAS, OPTIMIZER_CASES, OWN
from .outside_cases import CALLBACK_CASES, OUTSIDE_CASES, decaying
from .strategy_cases import STRATEGY_CASES

UNLIKE_OTHERS = ("Nadam", "Muon", "Adafactor", "ScheduleFreeAdamW", *(f"own: {kind}" for kind in OWN))
ON_TWO = {**{name: OPTIMIZER_CASES[name] for name in UNLIKE_OTHERS}, **CALLBACK_CASES}


def test_every_optimizer_of_keras_is_tried() -> None:
    def program(ctx: FakeContext) -> set[str]:
        import inspect

        import keras

        base = keras.optimizers.Optimizer
        found = {n for n, v in vars(keras.optimizers).items() if inspect.isclass(v) and issubclass(v, base)}
        return found - {"Optimizer"}

    wrappers = {"LossScaleOptimizer", "MultiOptimizer"}
    assert run_gang(1, program)[0] <= set(OF_KERAS) | wrappers


def test_no_case_has_the_name_of_another() -> None:
    """The result of one process for a case is stored under its name, for all test files."""
    kinds = (CASES, STRATEGY_CASES, OPTIMIZER_CASES, OUTSIDE_CASES, CALLBACK_CASES)
    assert len({name for cases in kinds for name in cases}) == sum(map(len, kinds))


@pytest.fixture(scope="module")
def on_two(request: pytest.FixtureRequest) -> Trained:
    return Trained(ON_TWO, selected(request))


@pytest.mark.parametrize("name", ON_TWO)
def test_two_tasks_do_what_one_process_does(name: str, on_two: Trained) -> None:
    expected, received = on_two(name, 2)
    compare(ON_TWO[name], expected, received[0])


@pytest.fixture(scope="module")
def on_three(request: pytest.FixtureRequest) -> Trained:
    return Trained({name: _with_sizes(case, (3,)) for name, case in OUTSIDE_CASES.items()}, selected(request, 3))


def _with_sizes(case: Case, sizes: tuple[int, ...]) -> Case:
    return Case(**{**vars(case), "sizes": sizes})


@pytest.mark.parametrize("name", OUTSIDE_CASES)
def test_what_a_step_assigns_is_what_one_process_assigns(name: str, on_three: Trained) -> None:
    expected, received = on_three(name, 3)
    compare(OUTSIDE_CASES[name], expected, received[0])


def test_what_cannot_be_shared_is_refused_with_its_reason() -> None:
    def refused(ctx: FakeContext, name: str, model: Any) -> str:
        with pytest.raises(InvalidInput) as raised:
            fit(ctx, name, model, *digits(24), batch_size=12)
        return str(raised.value)

    def program(ctx: FakeContext) -> list[str]:
        import keras

        losses: Any = keras.losses
        optimizers: Any = keras.optimizers

        def several() -> Any:
            return dense(optimizers.MultiOptimizer(lambda variable: optimizers.SGD(0.1)))

        def float8() -> Any:
            model = dense("sgd")
            model.layers[0].kernel.overwrite_with_gradient = True
            return model

        models = {
            "by example": lambda: decaying(by_example=True),
            "dice": lambda: dense("sgd", "dice"),
            "tversky": lambda: dense("sgd", losses.Tversky()),
            "circle": lambda: dense("sgd", losses.Circle()),
            "several": several,
            "float8": float8,
            "late": lambda: dense(optimizers.ScheduleFreeAdamW(0.1)),
        }
        return [refused(ctx, name, model) for name, model in models.items()]

    by_example, dice, tversky, circle, several, float8, late = run_gang(2, program)[0]
    assert "must not depend on the batch" in by_example
    assert "kernel" in by_example
    for message, name in ((dice, "dice"), (tversky, "tversky"), (circle, "circle")):
        assert f"got {name}, which is computed over all examples of a batch together" in message
    assert "got MultiOptimizer, which has several" in several
    assert "whose gradient is its next value" in float8
    assert "optimizer.build(model.trainable_variables)" in late


def test_every_loss_of_keras_is_a_mean_over_examples_or_refused() -> None:
    def program(ctx: FakeContext) -> dict[str, bool]:
        import inspect

        import keras

        from jupyter_dtf.backend.task.fit.limits import refuse_losses_of_whole_batch

        rng = np.random.default_rng(0)
        real = rng.uniform(0.1, 0.9, size=(12, 4)).astype("float32"), rng.uniform(0.1, 0.9, (12, 4)).astype("float32")
        given = {
            "SparseCategoricalCrossentropy": (np.arange(12) % 4, real[1]),
            "CategoricalGeneralizedCrossEntropy": (np.arange(12) % 4, real[1]),
            "Circle": (np.arange(12) % 4, real[1]),
            "CTC": (np.ones((12, 2), "int32"), rng.normal(size=(12, 5, 4)).astype("float32")),
            "Dice": (real[0] > 0.5, real[1]),
            "Tversky": (real[0] > 0.5, real[1]),
        }
        right = {}
        kinds: dict[str, Any] = vars(keras.losses)
        for name, kind in kinds.items():
            if not (inspect.isclass(kind) and issubclass(kind, keras.losses.Loss)) or kind is keras.losses.Loss:
                continue
            loss: Any = kind()
            model = dense("sgd", loss)
            try:
                refuse_losses_of_whole_batch(model)
            except InvalidInput:
                right[name] = True
                continue
            y, p = (np.asarray(a) for a in given.get(name, real))
            parts = 5 * float(loss(y[:5], p[:5])) + 7 * float(loss(y[5:], p[5:]))
            right[name] = abs(float(loss(y, p)) - parts / 12) < 1e-5 * max(1.0, abs(parts))
        return right

    right = run_gang(1, program)[0]
    assert len(right) > 20
    assert [name for name, is_right in right.items() if not is_right] == []


def test_every_loss_of_an_output_without_dimensions_is_a_mean_over_the_batch_or_refused() -> None:
    """For an output of the shape (batch,), Keras computes one value per batch, which is its own sum."""

    def program(ctx: FakeContext) -> dict[str, bool | str]:
        import inspect

        import keras

        from jupyter_dtf.backend.task.fit.limits import refuse_of_whole_batch

        rng = np.random.default_rng(0)
        y, p = (rng.uniform(0.1, 0.9, 12).astype("float32") for _ in range(2))
        found: dict[str, bool | str] = {}
        kinds: dict[str, Any] = {n: k for n, k in vars(keras.losses).items() if inspect.isclass(k)}
        for name, kind in kinds.items():
            if not issubclass(kind, keras.losses.Loss) or kind is keras.losses.Loss:
                continue
            loss: Any = kind(reduction="sum")
            try:
                refuse_of_whole_batch(loss, 1)
            except InvalidInput:
                found[name] = "refused"
                continue
            try:
                parts = 5 * float(loss(y[:5], p[:5])) + 7 * float(loss(y[5:], p[5:]))
                found[name] = abs(float(loss(y, p)) - parts / 12) < 1e-5 * max(1.0, abs(parts))
            except (IndexError, ValueError):
                found[name] = "impossible in Keras"
        return found

    found = run_gang(1, program)[0]
    assert len(found) > 20
    assert [name for name, outcome in found.items() if outcome is False] == []
    assert found["MeanSquaredError"] is True and found["BinaryCrossentropy"] is True
    assert found["CosineSimilarity"] == found["KLDivergence"] == "refused"


def test_every_metric_of_keras_adds_up_over_tasks() -> None:
    """``steps.Metrics`` adds up the variables of metrics according to their ``aggregation``."""

    def program(ctx: FakeContext) -> dict[str, bool]:
        import inspect

        import keras

        from jupyter_dtf.backend.task.collectives import make_reducer
        from jupyter_dtf.backend.task.fit.steps import Metrics

        metrics: Any = keras.metrics
        rng = np.random.default_rng(0)
        classes = rng.integers(0, 3, 12)
        binary = rng.integers(0, 2, (12, 1)).astype("float32"), rng.random((12, 1)).astype("float32")
        shares = rng.dirichlet(np.ones(3), 12).astype("float32")
        one_hot = np.eye(3, dtype="float32")[classes], shares
        given = {
            "MeanIoU": (classes, rng.integers(0, 3, 12)),
            "IoU": (classes, rng.integers(0, 3, 12)),
            "SparseCategoricalAccuracy": (classes, shares),
            "SparseCategoricalCrossentropy": (classes, shares),
            "SparseTopKCategoricalAccuracy": (classes, shares),
            **dict.fromkeys(
                ("BinaryAccuracy", "BinaryIoU", "PrecisionAtRecall", "RecallAtPrecision", "AUC", "Precision", "Recall",
                 "SensitivityAtSpecificity", "SpecificityAtSensitivity", "BinaryCrossentropy"), binary,
            ),
        }  # fmt: skip
        arguments: dict[str, tuple[Any, ...]] = {
            "MeanIoU": (3,), "OneHotMeanIoU": (3,), "IoU": (3, [0, 1]), "OneHotIoU": (3, [0, 1]),
            "MeanMetricWrapper": (keras.losses.mean_squared_error,),
            **dict.fromkeys(("SensitivityAtSpecificity", "SpecificityAtSensitivity"), (0.5,)),
            **dict.fromkeys(("PrecisionAtRecall", "RecallAtPrecision"), (0.5,)),
        }  # fmt: skip
        reducer = make_reducer("auto", ctx)
        mine = slice(0, 5) if ctx.rank == 0 else slice(5, 12)
        right = {}
        kinds: dict[str, Any] = vars(metrics)
        for name, kind in kinds.items():
            if not (inspect.isclass(kind) and issubclass(kind, metrics.Metric)) or kind is metrics.Metric:
                continue
            y, p = given.get(name, one_hot)
            whole: Any = kind(*arguments.get(name, ()))
            part: Any = kind(*arguments.get(name, ()))
            for metric, rows in ((whole, slice(0, 6)), (whole, slice(6, 12)), (part, mine)):
                metric.update_state(p[rows]) if name in ("Mean", "Sum") else metric.update_state(y[rows], p[rows])
            model = dense("sgd", metrics=[])
            shared = Metrics(model, reducer, lambda: None)
            shared._model = type("Of", (), {"metrics": [part]})()
            shared._sum()
            right[name] = bool(np.allclose(whole.result(), part.result(), rtol=1e-5, equal_nan=True))
        reducer.close()
        return right

    for right in run_gang(2, program):
        assert len(right) > 35
        assert [name for name, is_right in right.items() if not is_right] == []
