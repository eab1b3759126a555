"""Tests that a warning names custom metrics whose results depend on how a batch is divided, and no others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.backend.task.fit import first_step_check
from jupyter_dtf.backend.task.fit.first_step_check import METRIC_WARNING
from jupyter_dtf.schema.strategy import InGraph, ParameterServer

from ....patience import LIMIT_S
from ..gang import FakeContext, run_gang
from .cases import digits
from .comparison import fit
from .pipeline.placed import halves


def root_of_squares(y_true: Any, y_pred: Any) -> Any:
    import keras

    return keras.ops.sqrt(keras.ops.mean(keras.ops.square(keras.ops.cast(y_true, "float32") - y_pred[:, 0])))


def mean_of_the_batch(y_true: Any, y_pred: Any) -> Any:
    import keras

    return keras.ops.mean(keras.ops.abs(keras.ops.cast(y_true, "float32") - y_pred[:, 0]))


def by_example(y_true: Any, y_pred: Any) -> Any:
    import keras

    return keras.ops.abs(keras.ops.cast(y_true, "float32") - y_pred[:, 0])


def kept(name: str, update: Callable[[Any, Any], Any], initializer: str = "zeros") -> Any:
    """Return a metric with one number, which ``update`` changes with the predictions of a batch."""
    import keras

    class Kept(keras.metrics.Metric):
        def __init__(self) -> None:
            super().__init__(name=name)
            self.number = self.add_variable((), initializer, name="number")

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            self.number.assign(update(self.number, y_pred))

        def result(self) -> Any:
            return self.number

        def reset_state(self) -> None:
            self.number.assign(float(initializer == "ones"))

    return Kept()


def metrics() -> list[Any]:
    import keras

    ops = keras.ops
    return [
        root_of_squares,
        mean_of_the_batch,
        by_example,
        "accuracy",
        kept("largest", lambda old, new: ops.maximum(old, ops.max(ops.abs(new)))),
        kept("moving", lambda old, new: 0.9 * old + 0.1 * ops.mean(new)),
        kept("total", lambda old, new: old + ops.sum(new)),
        kept("from_one", lambda old, new: old + ops.sum(new), "ones"),
    ]


class OfBatch:
    """A model whose ``train_step`` updates two ``Mean`` metrics, one with a number that is no mean over examples."""

    @staticmethod
    def model() -> Any:
        import keras

        class Model(keras.Model):
            def __init__(self) -> None:
                super().__init__()
                self.dense = keras.layers.Dense(3)
                self.spread = keras.metrics.Mean("spread")
                self.level = keras.metrics.Mean("level")

            def call(self, x: Any) -> Any:
                return self.dense(x)

            def train_step(self, data: Any) -> Any:
                results = super().train_step(data)
                outputs = self(data[0])
                self.spread.update_state(keras.ops.std(outputs))
                self.level.update_state(keras.ops.mean(outputs))
                return {**results, "spread": self.spread.result(), "level": self.level.result()}

        keras.utils.set_random_seed(3)
        return Model()


def model(own: bool = False) -> Any:
    import keras

    keras.utils.set_random_seed(3)
    made = OfBatch.model() if own else keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile("sgd", loss, metrics=[] if own else metrics())
    return made


def warned(ctx: FakeContext, name: str, made: Any, **arguments: Any) -> list[str]:
    """Return the names of the metrics that a fit warns of, on batches that cannot be divided equally."""
    first_step_check.BUDGET_S = LIMIT_S
    x, y = digits(40)
    here, _ = fit(ctx, name, made, x, y, batch_size=13, epochs=1, **arguments)
    texts = [text for _, title, text in here.notes if title == METRIC_WARNING]
    return [re.search(r"first batch, (\w+) is", text)[1] for text in texts]  # type: ignore[index]


DIVIDED = ["root_of_squares", "largest", "moving", "from_one"]


def test_tasks_that_add_up_their_states() -> None:
    def program(ctx: FakeContext) -> Any:
        return (
            warned(ctx, "allreduce", model()),
            warned(ctx, "off", model(), check=False),
            warned(ctx, "own", model(own=True)),
        )

    found, off, own = run_gang(3, program)[0]
    assert found == DIVIDED and off == [] and own == ["spread"]


def test_metrics_of_keras_that_combine_the_examples_of_a_batch() -> None:
    def program(ctx: FakeContext) -> Any:
        import keras

        along = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
        along.compile("sgd", "mse", metrics=[keras.metrics.CosineSimilarity(axis=0), keras.metrics.CosineSimilarity()])
        flat = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1), keras.layers.Reshape(())])
        flat.compile("sgd", "mse", metrics=["mae"])
        x, y = digits(40)
        titles, texts = [], []
        for name, made, targets in (("along", along, x[:, :3]), ("flat", flat, y.astype("float32"))):
            here, _ = fit(ctx, name, made, x, targets, batch_size=13, epochs=1)
            warnings = [(title, text) for level, title, text in here.notes if level == "warning"]
            titles.append([title for title, _ in warnings])
            texts += [text for _, text in warnings]
        return titles, texts

    titles, texts = run_gang(3, program)[0]
    assert titles == [[METRIC_WARNING], ["Metrics depend on how the batch is divided"]]
    assert "On shares of the first batch, cosine_similarity is" in texts[0] and "mae may differ" in texts[1]


def test_workers_of_parameter_servers() -> None:
    def program(ctx: FakeContext) -> Any:
        return warned(ctx, "servers", model(), strategy=ParameterServer(sync=True))

    assert run_gang(3, program, servers=1)[0] == DIVIDED


def test_replicas_change_one_state_in_turn_and_a_pipeline_sees_whole_batches() -> None:
    def program(ctx: FakeContext) -> Any:
        import tensorflow as tf

        from jupyter_dtf.schema.strategy import Pipeline

        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        made = model()
        placed = Pipeline(halves(made, 1), microbatches=3)
        return warned(ctx, "replicas", model(), strategy=InGraph()), warned(ctx, "pipeline", made, strategy=placed)

    ((replicas, pipeline),) = run_gang(1, program)
    assert replicas == ["root_of_squares", "moving"] and pipeline == []


def test_the_warning_says_both_results() -> None:
    def program(ctx: FakeContext) -> Any:
        first_step_check.BUDGET_S = LIMIT_S
        x, y = digits(40)
        here, result = fit(ctx, "said", model(), x, y, batch_size=40, epochs=1)
        return here.notes, result and result.history

    notes, history = run_gang(2, program)[0]
    (text,) = (text for _, _, text in notes if "largest" in text)
    by_share, whole = (float(number) for number in re.findall(r"(?:largest|it) is ([\d.]+)[;.] ", text))
    assert by_share == pytest.approx(history["largest"][0], rel=1e-4)
    x, _ = digits(40)
    assert whole == pytest.approx(np.abs(model()(x).numpy()).max(), rel=1e-4)
