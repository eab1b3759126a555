from __future__ import annotations

from typing import Any

import keras
import pytest
import tensorflow as tf

from jupyter_dtf.backend.task.fit.batched import check_batched, is_one_example
from jupyter_dtf.errors import InvalidInput


@pytest.mark.parametrize(
    ("has", "takes", "divided", "expected"),
    [
        ((64,), (None, 64), False, True),
        ((28, 28, 3), (None, 28, 28, 3), False, True),
        ((None, None, 3), (None, 28, 28, 3), False, True),
        ((None, 64), (None, 64), False, False),
        ((32,), (None, 64), False, False),  # a batch of scalars: Keras reports the mismatch
        ((None, 28, 28), (None, 28, 28, 3), False, False),
        ((None,), (None, 1), False, False),  # Keras adds a dimension
        ((None, 28, 28), (None, 28, 28, 1), False, False),
        ((32,), (None, 64), True, True),  # one task's half of a single example of size 64
        ((14, 28), (None, 28, 28), True, True),
        ((16, 10, 28), (None, 28, 28, 3), True, False),
        ((16, 64), (None, 64), True, False),
    ],
)
def test_what_is_one_example(has: Any, takes: Any, divided: bool, expected: bool) -> None:
    assert is_one_example(has, takes, divided=divided) is expected


def spec(*shape: int | None) -> tf.TensorSpec:
    return tf.TensorSpec(shape)


def test_a_model_says_what_it_takes() -> None:
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(10)])
    check_batched(model, (spec(None, 64), spec(None)), "the tf.data.Dataset", "x")
    message = (
        r"The tf\.data\.Dataset in `x` must be batched, because the model takes batches of shape \(None, 64\), got "
        r"elements of shape \(64,\); call `\.batch\(n\)`"
    )
    for batch in ((spec(64), spec(64)), spec(64)):
        with pytest.raises(InvalidInput, match=message):
            check_batched(model, batch, "the tf.data.Dataset", "x")
    with pytest.raises(InvalidInput, match="The generator in `validation_data` must be .* got arrays of 1 dimension;"):
        check_batched(model, (spec(None), spec(None)), "the generator", "validation_data", divided=True)


def test_models_whose_inputs_say_nothing_are_not_judged() -> None:
    class Own(keras.Sequential):  # its train_step may process data in any way
        pass

    two = [keras.Input((64,)), keras.Input((64,))]
    for model in (
        keras.Sequential([keras.layers.Dense(10)]),
        Own([keras.Input((64,)), keras.layers.Dense(10)]),
        keras.Model(two, keras.layers.Add()(two)),
    ):
        check_batched(model, (spec(64), spec(64)), "the tf.data.Dataset", "x")
    check_batched(keras.Sequential([keras.Input((64,))]), (tf.TensorSpec(None),), "the tf.data.Dataset", "x")
