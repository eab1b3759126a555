"""Real TensorFlow errors, in graphs and eagerly, are described by the batch at which they occurred."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from jupyter_dtf.backend.task.fit.failed_batch import BatchPlace

X, Y = np.ones((60, 4), np.float32), np.zeros(60, np.int64)
NAMES = "the tf.data.Dataset in x", "the tf.data.Dataset in validation_data"


def numbers(*, bad: int | None = None, line: str = "") -> tf.data.Dataset:
    """Return parsed rows of text, whose number of columns is unknown in advance."""
    lines = [line if number == bad else "1,2,3,4" for number in range(60)]

    def parse(line: Any, y: Any) -> Any:
        return tf.strings.to_number(tf.strings.split(line, ",")), y

    return tf.data.Dataset.from_tensor_slices((lines, Y)).map(parse).batch(10)


def narrow(at: int) -> tf.data.Dataset:
    """Return batches of four columns, except batch ``at``, which has two."""
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(10).enumerate()
    return dataset.map(lambda number, batch: (batch[0][:, : tf.where(number == at, 2, 4)], batch[1]))


def of_python() -> tf.data.Dataset:
    def fails(x: Any) -> Any:
        raise ValueError("no such page")

    def mapped(x: Any, y: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(fails, [x], tf.float32), [4]), y

    return tf.data.Dataset.from_tensor_slices((X, Y)).map(mapped).batch(10)


@pytest.mark.parametrize("eagerly", [False, True])
@pytest.mark.parametrize(
    ("dataset", "validation", "expected"),
    [
        (
            lambda: numbers(bad=35, line="1,x,3,4"),
            None,
            "Batch 4 of epoch 1 of the tf.data.Dataset in x could not be read: StringToNumberOp could not correctly "
            "convert string: x",
        ),
        (
            lambda: numbers(bad=35, line="1,2"),
            None,
            "Batch 4 of epoch 1 of the tf.data.Dataset in x could not be read: Cannot add tensor to the batch: number "
            "of elements does not match. Shapes are: [tensor]: [2], [batch]: [4]",
        ),
        (
            of_python,
            None,
            "Batch 1 of epoch 1 of the tf.data.Dataset in x could not be read: ValueError: no such page",
        ),
        (
            numbers,
            lambda: numbers(bad=12, line="1,x,3,4"),
            "Batch 2 of epoch 1 of the tf.data.Dataset in validation_data could not be read: StringToNumberOp could "
            "not correctly convert string: x",
        ),
    ],
)
def test_what_fails_in_a_dataset(dataset: Any, validation: Any, expected: str, eagerly: bool) -> None:
    place = BatchPlace(*NAMES)
    with pytest.raises(tf.errors.OpError) as caught:
        fit(dataset(), place, validation_data=validation and validation(), run_eagerly=eagerly)
    assert str(place.named(caught.value)) == expected


def test_what_the_model_cannot_compute() -> None:
    place = BatchPlace(*NAMES)
    with pytest.raises(tf.errors.OpError) as caught:
        fit(narrow(4), place)
    assert str(place.named(caught.value)) == (
        "Batch 5 of epoch 1 of the tf.data.Dataset in x could not be processed by the model: Matrix size-incompatible: "
        "In[0]: [10,2], In[1]: [4,3]"
    )


def test_steps_that_are_executed_together() -> None:
    place = BatchPlace(*NAMES, 3)
    with pytest.raises(tf.errors.OpError) as caught:
        fit(numbers(bad=45, line="?"), place, steps_per_execution=3)
    assert str(place.named(caught.value)).startswith("One of the batches 4 to 6 of epoch 1")


def test_other_errors_are_not_the_datas() -> None:
    place = BatchPlace(*NAMES)
    assert place.named(ValueError("wrong")) is None
    assert place.named(tf.errors.ResourceExhaustedError(None, None, "no memory")) is None
    assert place.named(tf.errors.InvalidArgumentError(None, None, "of an exchange [[{{node PyFunc}}]]")) is None


def fit(dataset: Any, place: BatchPlace, *, validation_data: Any = None, **compiled: Any) -> None:
    layer = keras.layers.Dense(3)
    model = keras.Sequential([keras.Input((4,)), layer])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), **compiled)
    model.fit(dataset, validation_data=validation_data, callbacks=[place], shuffle=False, verbose=0)
