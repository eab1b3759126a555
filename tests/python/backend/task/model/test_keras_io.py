"""Tests of models that are sent: their outputs, configuration, variables and next training steps stay the same."""

from __future__ import annotations

import pickle
import random
import warnings
from typing import Any

import numpy as np
import pytest

from jupyter_dtf import InvalidInput
from jupyter_dtf.backend.task.model import keras_io
from jupyter_dtf.backend.task.model.patched import patched

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import keras

    from .. import travellers


def there(packed: keras_io.PackedModel, x: Any, y: Any) -> Any:
    """Return the model as a task has it before training."""
    random.seed(77)  # other numbers than the client's
    again = keras_io.unpack(pickle.loads(pickle.dumps(packed, protocol=5)))
    keras_io.build(again, keras_io.batch_spec((x, y, None)))
    keras_io.restore(again, packed)
    return again


def tensors(value: Any) -> Any:
    import tensorflow as tf

    return keras.tree.map_structure(tf.convert_to_tensor, value)


def assert_alike(ours: Any, theirs: Any, x: Any) -> None:
    for a, b in zip(keras.tree.flatten(ours(x)), keras.tree.flatten(theirs(x)), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    for a, b in zip(ours.variables, theirs.variables, strict=False):
        np.testing.assert_array_equal(a.numpy(), b.numpy(), err_msg=b.path)
        assert (a.dtype, a.trainable) == (b.dtype, b.trainable), b.path
    assert len(ours.weights) == len(theirs.weights)
    assert type(ours.optimizer) is type(theirs.optimizer)
    for a, b in zip(ours.optimizer.variables, theirs.optimizer.variables, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy(), err_msg=b.path)
    for name in ("run_eagerly", "steps_per_execution", "jit_compile", "trainable", "dtype_policy"):
        assert getattr(ours, name) == getattr(theirs, name), name
    policies = [[layer.dtype_policy.name for layer in model._flatten_layers()] for model in (ours, theirs)]
    assert policies[0] == policies[1]


@pytest.mark.filterwarnings("ignore:[^§]*The structure of `inputs`")  # of FeatureSpace's own inputs
@pytest.mark.parametrize("name", travellers.MODELS)
def test_a_model_travels_as_it_is(name: str) -> None:
    keras.utils.set_random_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from Keras, when it quantizes
        model, x, y = travellers.MODELS[name]()
    batch, targets = tensors(x), tensors(y)
    if model.built:  # otherwise, it is built in the task
        with patched(model, run_eagerly=True):
            model.train_on_batch(batch, targets)
    packed = keras_io.pack(model)
    again = there(packed, batch, targets)
    if not model.built:
        with patched(model, run_eagerly=True):
            model.train_on_batch(batch[:1], targets[:1])
        again = there(keras_io.pack(model), batch, targets)
    assert_alike(again, model, batch)
    for attempt in (model, again):
        attempt.run_eagerly = True
    ours, theirs = [
        [attempt.train_on_batch(batch, targets, return_dict=True) for _ in range(2)] for attempt in (again, model)
    ]
    assert ours == theirs
    assert_alike(again, model, batch)


def test_weights_that_others_take_the_place_of_are_not_drawn() -> None:
    import keras

    counted = keras.initializers.RandomNormal(seed=keras.random.SeedGenerator(3))
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(3),
            keras.layers.Dense(3, kernel_initializer="ones", bias_initializer=counted),
        ]
    )
    model.compile("sgd", "mse")
    packed = keras_io.pack(model)
    again = keras_io.unpack(packed)
    assert [np.count_nonzero(weight) for weight in again.get_weights()] == [1, 0, 9, 3]
    keras_io.restore(again, packed)
    for ours, theirs in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)

    unbuilt = keras.Sequential([keras.layers.Dense(3)])
    unbuilt.compile("sgd", "mse")
    drawn = keras_io.unpack(keras_io.pack(unbuilt))
    drawn.build((None, 4))
    assert drawn.get_weights()[0].any()


@pytest.mark.parametrize("shape", [(), (1,), (3, 2), (0, 4)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_weights_of_any_shape_and_type_are_not_drawn(shape: tuple[int, ...], dtype: str) -> None:
    with keras_io._undrawn():
        made = keras.Variable(keras.initializers.RandomNormal(), shape=shape, dtype=dtype)
    assert (tuple(made.shape), made.dtype) == (shape, dtype)
    assert np.count_nonzero(np.asarray(made.numpy(), "float32")) == min(1, np.prod(shape))


@pytest.mark.parametrize("built", [True, False])
def test_slots_that_would_be_copied_in_every_step_are_refused(built: bool) -> None:
    model = keras.Sequential([keras.layers.Dense(3)])
    if built:
        model.build((None, 4))
    model.compile(keras.optimizers.ScheduleFreeAdamW(), "mse")
    x, y = tensors(np.ones((2, 4), "float32")), tensors(np.ones((2, 3), "float32"))
    packed = keras_io.pack(model)
    if built:
        with pytest.raises(InvalidInput, match="must be built before `fit`, got ScheduleFreeAdamW"):
            there(packed, x, y)
    else:
        there(packed, x, y)  # its weights are drawn and its slots built in the task, as in one process


@pytest.mark.parametrize("again", [{}, {"loss": "mae"}, {"metrics": ["mse"]}, {"weighted_metrics": ["mse"]}], ids=str)
def test_what_a_later_compile_leaves_in_place_travels(again: dict[str, Any]) -> None:
    """``compile`` without a loss, or without metrics, keeps the previous ones."""
    x, y = np.ones((4, 3), "float32"), np.zeros((4, 1), "float32")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"], loss_weights=0.5)
    model.compile(keras.optimizers.Adam(0.1), **again)
    taken = there(keras_io.pack(model), tensors(x), tensors(y))
    ours = taken.evaluate(x, y, verbose=0, return_dict=True)
    assert ours == pytest.approx(model.evaluate(x, y, verbose=0, return_dict=True))
    assert "loss" in ours and len(ours) == 2


def unbuilt(kind: str) -> Any:
    class Own(keras.Model):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.hidden = keras.layers.Dense(4, kernel_initializer="he_normal")
            self.out = keras.layers.Dense(1)

        def call(self, x: Any) -> Any:
            return self.out(self.hidden(x))

    keras.utils.set_random_seed(5)
    layers = keras.layers
    made = {
        "dense": lambda: keras.Sequential([layers.Dense(4), layers.Dense(1)]),
        "recurrent": lambda: keras.Sequential([layers.Reshape((3, 1)), layers.LSTM(4), layers.Dense(1)]),
        "subclassed": Own,
    }[kind]()
    made.compile("sgd", "mse")
    return made


@pytest.mark.parametrize("kind", ["dense", "recurrent", "subclassed"])
def test_a_model_that_is_not_built_draws_the_weights_that_it_would_have_drawn_here(kind: str) -> None:
    x, y = np.ones((4, 3), "float32"), np.zeros((4, 1), "float32")
    model = unbuilt(kind)
    taken = there(keras_io.pack(model), tensors(x), tensors(y))
    model(x)
    for ours, theirs in zip(taken.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
