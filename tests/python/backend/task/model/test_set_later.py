"""Tests of changes that a user has made to a model after its layers were created."""

from __future__ import annotations

import enum
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.backend.task.model import keras_io
from jupyter_dtf.errors import InvalidInput

keras = pytest.importorskip("keras")
SPEC = (keras_io._Leaf((None, 3), "float32"), keras_io._Leaf((None,), "int64"))


class Mode(enum.Enum):
    LOW = 1
    HIGH = 2


class Settings:
    def __init__(self) -> None:
        self.low, self.table, self.inner = 1.0, np.zeros(3), object()
        self.itself = self


class Scaled(keras.layers.Layer):  # type: ignore[name-defined]
    """A layer with attributes of many types, none of which are in its configuration."""

    def __init__(self, **options: Any) -> None:
        import tensorflow as tf

        super().__init__(**options)
        self.flag = False
        self._function: Callable[[Any], Any] = lambda x: x
        self.factor = tf.constant(1.0)
        self.held = tf.Variable(1.0, trainable=False)
        self.has_been_built = False
        self.mode = Mode.LOW
        self.settings = Settings()

    def build(self, shape: Any) -> None:
        self.has_been_built = True

    def call(self, x: Any) -> Any:
        return self._function(x) * self.factor * self.held * (2.0 if self.flag else 1.0)


def network() -> Any:
    layers = [keras.Input((3,)), Scaled(name="scaled"), keras.layers.Dense(2, kernel_regularizer="l2", name="out")]
    model = keras.Sequential(layers)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def in_a_task(model: Any) -> tuple[Any, list[str]]:
    """Return the model as a task has it, and the names of attributes that the task reports as different."""
    packed = keras_io.pack(model)
    rebuilt = keras_io.unpack(packed)
    keras_io.build(rebuilt, SPEC)
    return rebuilt, keras_io.restore(rebuilt, packed)


def test_as_it_was_created() -> None:
    model = network()
    assert in_a_task(model)[1] == []
    model.fit(np.ones((4, 3), "float32"), np.zeros(4, "int64"), verbose=0)
    assert in_a_task(model)[1] == []


def change_flag(layer: Any) -> None:
    layer.flag = True


def change_function(layer: Any) -> None:
    layer._function = lambda x: 2 * x


def change_tensor(layer: Any) -> None:
    import tensorflow as tf

    layer.factor = tf.constant(3.0)


def change_mode(layer: Any) -> None:
    layer.mode = Mode.HIGH


def change_setting(layer: Any) -> None:
    layer.settings.low = 0.5


def change_table(layer: Any) -> None:
    layer.settings.table[1] = 2.0


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (change_flag, "flag"),
        (change_function, "_function"),
        (change_tensor, "factor"),
        (change_mode, "mode"),
        (change_setting, "settings"),
        (change_table, "settings"),
    ],
)
def test_an_attribute_that_was_changed_is_named(change: Callable[[Any], None], name: str) -> None:
    model = network()
    change(model.layers[0])
    assert in_a_task(model)[1] == [f"scaled.{name}"]


def test_a_variable_that_keras_does_not_track_is_sent() -> None:
    model = network()
    model.layers[0].held.assign(4.0)
    rebuilt, said = in_a_task(model)
    assert said == [] and float(rebuilt.layers[0].held) == 4.0


def test_constraints_and_regularizers_are_those_that_the_weights_have_now() -> None:
    model = network()
    kernel, bias = model.layers[1].kernel, model.layers[1].bias
    kernel.constraint, kernel.regularizer = keras.constraints.MaxNorm(0.5), None
    bias.regularizer = keras.regularizers.L1(0.25)
    model.layers[1].bias_constraint = keras.constraints.NonNeg()  # too late to have an effect
    out = in_a_task(model)[0].layers[1]
    assert out.kernel.constraint.get_config()["max_value"] == 0.5
    assert out.kernel.regularizer is None
    assert out.bias.regularizer.get_config() == {"l1": 0.25}
    assert out.bias.constraint is None


def half_of_the_squares(weight: Any) -> Any:
    return 0.5 * keras.ops.sum(weight**2)


@pytest.mark.parametrize("regularizer", [half_of_the_squares, lambda weight: keras.ops.sum(weight) / 4])
def test_a_function_that_its_layer_was_given_travels_without_a_word(regularizer: Any) -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, kernel_regularizer=regularizer)])
    model.compile("sgd", "mse")
    rebuilt, said = in_a_task(model)
    assert said == []
    assert float(rebuilt.losses[0]) == pytest.approx(float(model.losses[0]))


def test_a_custom_constraint_that_was_set_later_is_refused() -> None:
    class Rounded(keras.constraints.Constraint):  # type: ignore[name-defined]
        def __call__(self, weight: Any) -> Any:
            return keras.ops.round(weight)

    model = network()
    model.layers[1].kernel.constraint = Rounded()
    with pytest.raises(InvalidInput, match=r"constraint of .*kernel must be .* got .*Rounded, which was set later"):
        in_a_task(model)


@pytest.mark.parametrize("method", ["call", "train_step", "compute_loss"])
def test_a_method_that_was_replaced_on_an_object_is_refused(method: str) -> None:
    model = network()
    owner = model.layers[1] if method == "call" else model
    original = getattr(type(owner), method)
    setattr(owner, method, types.MethodType(original, owner))
    with pytest.raises(InvalidInput, match=f"must be defined in a class, got a {method} that was set on"):
        keras_io.pack(model)


def test_the_alpha_of_lora_is_kept() -> None:
    """In Keras 3.15, ``Dense`` replaces it with the rank when it is rebuilt."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, name="low"), keras.layers.Dense(2)])
    model.layers[0].enable_lora(2, lora_alpha=16)
    model.compile("sgd", "mse")
    model.layers[0].lora_kernel_b.assign(np.ones((2, 4)))
    rebuilt = in_a_task(model)[0]
    assert rebuilt.layers[0].lora_alpha == 16
    x = np.ones((2, 3), "float32")
    np.testing.assert_allclose(rebuilt(x), model(x), rtol=1e-5)


@keras.saving.register_keras_serializable("tests")
class Cell(keras.layers.Layer):  # type: ignore[name-defined]
    def __init__(self, units: int, **options: Any) -> None:
        super().__init__(**options)
        self.units = self.state_size = self.output_size = units

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(shape=(shape[-1], self.units))

    def call(self, x: Any, states: Any, training: bool = False) -> Any:
        new = keras.ops.tanh(keras.ops.matmul(x, self.kernel) + states[0])
        return new, [new]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units}


def _of_another_process(model: Any) -> Any:
    """Return the model as a process in which no class is registered rebuilds it."""
    packed = keras_io.pack(model)
    with patched_registry():
        return keras_io.unpack(packed)


@contextmanager
def patched_registry() -> Iterator[None]:
    from keras.src.saving import object_registration  # Keras 3.15: the registry of custom objects has no public hook.

    kept = dict(object_registration.GLOBAL_CUSTOM_OBJECTS), dict(object_registration.GLOBAL_CUSTOM_NAMES)
    object_registration.GLOBAL_CUSTOM_OBJECTS.clear()
    object_registration.GLOBAL_CUSTOM_NAMES.clear()
    try:
        yield
    finally:
        object_registration.GLOBAL_CUSTOM_OBJECTS.update(kept[0])
        object_registration.GLOBAL_CUSTOM_NAMES.update(kept[1])


def test_a_wrapper_that_configures_its_layer_again_is_rebuilt() -> None:
    inputs = keras.Input((4, 3))
    outputs = keras.layers.Bidirectional(keras.layers.RNN(Cell(5)))(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2)(outputs))
    model.compile("sgd", "mse")
    rebuilt = _of_another_process(model)
    assert [weight.shape for weight in rebuilt.weights] == [weight.shape for weight in model.weights]
