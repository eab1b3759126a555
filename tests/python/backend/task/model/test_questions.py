"""Tests of comparing a returned model's outputs with its outputs in the task."""

from __future__ import annotations

import pickle
import warnings
from types import SimpleNamespace
from typing import Any

import cloudpickle
import numpy as np
import pytest

from jupyter_dtf.backend.task.fit.job import FitResult
from jupyter_dtf.backend.task.model import keras_io, questions
from jupyter_dtf.backend.task.model.model_state import take_more
from jupyter_dtf.client.fit import prepare
from jupyter_dtf.errors import ModelDiffers

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import keras
    import tensorflow as tf

X = np.random.default_rng(0).normal(size=(50, 3)).astype("float32")
Y = X[:, :1] * 2


class Shifted(keras.layers.Layer):
    """A layer that computes with a value that is in no configuration, no variable and no plain attribute."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.shift: Any = tf.constant(0.0)

    def call(self, v: Any) -> Any:
        return v + self.shift


def compiled(*layers: Any, loss: Any = "mse", **more: Any) -> Any:
    model = keras.Sequential([keras.Input((3,)), *layers, keras.layers.Dense(1)])
    model.compile("sgd", loss, **more)
    return model


def result_of(model: Any, question: questions.Question | None) -> FitResult:
    """Return the result that a task would return for a trained model."""
    result = FitResult(model.get_weights(), [v.numpy() for v in model.optimizer.variables], None, {}, [], b"")
    result.more, result.question = take_more(model), question
    return pickle.loads(cloudpickle.dumps(result))  # type: ignore[no-any-return]


def ask(model: Any, x: Any = X, y: Any = Y) -> questions.Question:
    question = questions.ask(model, (x, y, None), None)
    assert question is not None
    return pickle.loads(pickle.dumps(question))  # type: ignore[no-any-return]


def test_what_has_not_travelled_is_an_error_and_the_weights_are_there() -> None:
    model = compiled(Shifted())
    model.layers[0].shift = tf.constant(2.0)
    prepared = prepare(model, X, Y)
    _, (job,), _ = prepared.program
    there = keras_io.unpack(job.model)
    keras_io.restore(there, job.model)
    there.train_on_batch(X, Y)
    with pytest.raises(ModelDiffers, match="its loss .* here and .* there.*does hold the trained weights"):
        prepared.finish(result_of(there, ask(there)))
    np.testing.assert_array_equal(model.get_weights()[0], there.get_weights()[0])
    assert prepared.model is model


def test_a_function_that_makes_another_model_here_is_found_out_once() -> None:
    shifts = [3.0, 1.0]

    def function() -> Any:
        model = compiled(Shifted())
        model.layers[0].shift = tf.constant(shifts.pop())
        return model

    there = function()
    prepared = prepare(function, X, Y)
    prepared.finish(result_of(there, ask(there)))
    with pytest.raises(ModelDiffers):
        _ = prepared.model
    np.testing.assert_array_equal(prepared.model.get_weights()[0], there.get_weights()[0])


def test_a_loss_of_another_scale_is_found_on_equal_outputs() -> None:
    model = compiled()
    question = ask(model)
    assert not questions.difference(model, question)
    model.compile("sgd", lambda y, pred: 1.1 * keras.ops.mean((y - pred) ** 2))
    assert "for the same outputs" in questions.difference(model, question)


def test_being_asked_changes_nothing() -> None:
    class Counting(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False)
            self.random = keras.random.SeedGenerator(5)

        def call(self, v: Any) -> Any:
            self.calls.assign_add(1.0)
            return v + keras.random.normal((3,), seed=self.random)

    model = compiled(Counting(), metrics=["mae"])
    model.train_on_batch(X, Y)
    before = [v.numpy() for v in model.variables]
    assert not questions.difference(model, ask(model))
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value, err_msg=variable.path)


def test_models_that_answer_at_random_or_not_at_all_are_let_be() -> None:
    model = compiled(keras.layers.Lambda(lambda v: v + tf.random.normal((3,))))
    assert not questions.difference(model, ask(model))

    class NoCall(keras.Model):
        pass

    model = NoCall()
    model.compile("sgd")
    assert questions.ask(model, (X, Y, None), None) is None


@pytest.mark.parametrize(
    ("ours", "theirs", "tolerance", "apart"),
    [
        ([1.0, 2.0], [1.0, 2.001], 1e-3, False),
        ([1.0, 2.0], [1.0, 2.01], 1e-3, True),
        ([np.nan, 2.0], [np.nan, 2.0], 1e-3, False),
        ([np.nan, 2.0], [1.0, 2.0], 1e-3, True),
        ([np.inf, 2.0], [60000.0, 2.0], 1e-1, False),  # half precision
        ([1e30], [1e30], 1e-3, False),
        ([0.0], [1e-9], 1e-3, False),
        ([], [], 1e-3, False),
    ],
)
def test_how_far_answers_may_be_apart(ours: Any, theirs: Any, tolerance: float, apart: bool) -> None:
    assert (questions._distance(ours, theirs, tolerance) > tolerance) is apart


def test_few_examples_of_what_is_large() -> None:
    model = compiled()
    assert len(ask(model).batch[0]) == questions.EXAMPLES
    large = SimpleNamespace(count_params=lambda: 10**9, inputs=[])
    assert questions._examples(large, (X, Y, None)) == 1
    wide = np.zeros((40, 1 << 19), "float16")
    assert questions._examples(SimpleNamespace(count_params=lambda: 9, inputs=[]), (wide, None, None)) == 1
    fixed = keras.Sequential([keras.Input(batch_shape=(7, 3)), keras.layers.Dense(1)])
    assert questions._examples(fixed, (X, Y, None)) == 7


def test_datasets_are_not_asked_for_more() -> None:
    words = keras.layers.StringLookup(vocabulary=["a"], name="words")
    inputs = {"w": keras.Input((2,), dtype="string", name="w"), "n": keras.Input((None, 3), name="n")}
    total = keras.layers.GlobalAveragePooling1D()(inputs["n"])
    embedded = keras.layers.Flatten()(keras.layers.Embedding(2, 2)(words(inputs["w"])))
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Concatenate()([total, embedded])))
    model.compile("sgd", "mse")
    spec = keras_io.batch_spec(
        (
            {"w": tf.TensorSpec((None, 2), tf.string), "n": tf.TensorSpec((None, None, 3), tf.float32)},
            tf.TensorSpec((None, 1), tf.float32),
        )
    )
    question = questions.ask(model, None, spec)
    assert question is not None
    assert question.answer.loss is not None
    assert not questions.difference(model, question)
