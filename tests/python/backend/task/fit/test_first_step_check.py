"""Tests of comparing the first step with the same step in one process: what it warns of, and what it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.backend.task.fit import first_step_check
from jupyter_dtf.backend.task.fit.first_step_check import NOT_COMPARED, WARNING, Guard
from jupyter_dtf.backend.task.fit.own_parts import own_parts
from jupyter_dtf.backend.task.fit.repeated_step import Parts
from jupyter_dtf.schema.strategy import AllReduce, InGraph, ParameterServer

from ....patience import LIMIT_S
from ..gang import FakeContext, run_gang
from .cases import digits
from .comparison import fit
from .pipeline.placed import halves


def network(loss: Any, *layers: Any, **compiled: Any) -> Any:
    import keras

    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), *layers, keras.layers.Dense(3)])
    model.compile(compiled.pop("optimizer", "adam"), loss, **compiled)
    return model


def by_example(y_true: Any, y_pred: Any) -> Any:
    import keras

    return keras.losses.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)


def within_the_batch(y_true: Any, y_pred: Any) -> Any:
    import keras

    return by_example(y_true, y_pred - keras.ops.mean(y_pred, 0, keepdims=True))


def random_and_normalized() -> Any:
    import keras

    layers = keras.layers
    dropout = layers.Dropout(0.5, seed=5)  # every task here is a client of its own
    return network(by_example, layers.BatchNormalization(), dropout, metrics=["accuracy"])


def centred() -> Any:
    import keras

    class Centred(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return x - keras.ops.mean(x, 0, keepdims=True)

    return network(keras.losses.SparseCategoricalCrossentropy(from_logits=True), Centred(), optimizer="sgd")


def summing(**compiled: Any) -> Any:
    """Return a model with a layer that keeps the sum, maximum and number of examples, and its number of calls."""
    import keras

    class Summing(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.total = self.add_weight(shape=(1,), initializer="zeros", trainable=False, name="total")
            self.largest = self.add_weight(shape=(), initializer="zeros", trainable=False, name="largest")
            for name in ("examples", "calls"):
                made = self.add_weight(shape=(), dtype="int32", initializer="zeros", trainable=False, name=name)
                setattr(self, name, made)

        def call(self, x: Any, training: bool = False) -> Any:
            if training:
                self.total.assign_add(keras.ops.reshape(keras.ops.sum(keras.ops.abs(x)), (1,)))
                self.largest.assign(keras.ops.maximum(self.largest, keras.ops.max(keras.ops.sum(x, 1))))
                self.examples.assign_add(keras.ops.shape(x)[0])
                self.calls.assign_add(1)
            return x

    return network("sparse_categorical_crossentropy", Summing(), **compiled)


def averaging(**compiled: Any) -> Any:
    """Return a model with a layer that keeps a moving mean over examples, after layers that use a share on purpose."""
    import keras

    class Averaging(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.mean = self.add_weight(shape=(8,), initializer="zeros", trainable=False, name="mean")

        def call(self, x: Any, training: bool = False) -> Any:
            if training:
                self.mean.assign(0.9 * self.mean + 0.1 * keras.ops.mean(keras.ops.abs(x), 0))
            return x

    layers = keras.layers
    before = (layers.BatchNormalization(), layers.Dropout(0.5, seed=5))
    return network("sparse_categorical_crossentropy", *before, Averaging(), **compiled)


def centred_by_operations() -> Any:
    import keras

    keras.utils.set_random_seed(3)
    inputs = keras.Input((6,))
    hidden = keras.layers.Dense(8, "tanh")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(3)(hidden - keras.ops.mean(hidden, 0, keepdims=True)))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def keras_own() -> Any:
    import keras

    return network(keras.losses.SparseCategoricalCrossentropy(from_logits=True))


MODELS: dict[str, Callable[[], Any]] = {
    "within": lambda: network(within_the_batch),
    "by example": random_and_normalized,
    "centred": centred,
    "centred by operations": centred_by_operations,
    "several at once": lambda: network(within_the_batch, steps_per_execution=2),
    "summing": summing,
    "averaging": averaging,
    "averaging, several at once": lambda: averaging(steps_per_execution=2),
}


def warned(ctx: FakeContext, name: str, model: Any, **arguments: Any) -> tuple[list[str], list[Any], Any]:
    """Return a fit's warnings about its first step, its weights, and its history, however slow this machine is."""
    from jupyter_dtf.backend.task.fit import first_step_check as guard

    guard.BUDGET_S = LIMIT_S
    x, y = digits(40)
    here, result = fit(ctx, name.replace(" ", "_"), model, x, y, batch_size=12, epochs=1, **arguments)
    found = [text for _, title, text in here.notes if title == WARNING]
    return found, result and result.weights, result and result.history


def under_allreduce(ctx: FakeContext) -> dict[str, Any]:
    found = {name: warned(ctx, name, model()) for name, model in MODELS.items()}
    found["left out"] = warned(ctx, "left out", MODELS["within"](), check=False)
    found["by example, left out"] = warned(ctx, "by example left out", random_and_normalized(), check=False)
    found["compressed"] = warned(ctx, "compressed", MODELS["within"](), strategy=AllReduce(compression="fp16"))
    return found


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    results: dict[str, Any] = run_gang(2, under_allreduce)[0]
    return results


def test_a_loss_that_compares_examples_is_told_of_with_its_name_and_what_came_of_it(found: dict[str, Any]) -> None:
    (text,) = found["within"][0]
    assert "on 2 shares of the batch" in text
    assert "These parts may be the cause: within_the_batch." in text
    assert "dense" in text
    assert len(found["several at once"][0]) == 1


def test_a_layer_that_takes_a_mean_over_examples_is_told_of(found: dict[str, Any]) -> None:
    assert "Centred" in found["centred"][0][0]
    assert "may be the cause: mean, subtract" in found["centred by operations"][0][0]


def told_of(texts: list[str]) -> list[str]:
    """Return the names of the non-trainable weights that these warnings are about."""
    return [text.partition("has not changed ")[2].partition(",")[0].rpartition("/")[2] for text in texts]


def test_what_a_layer_keeps_and_is_no_mean_is_told_of_with_its_name(found: dict[str, Any]) -> None:
    texts = found["summing"][0]
    assert told_of(texts) == ["total", "largest", "examples"]
    assert all("a weight of summing (Summing)," in text for text in texts)
    assert found["averaging"][0] == [] and found["averaging, several at once"][0] == []


def test_what_tasks_do_differently_on_purpose_is_not(found: dict[str, Any]) -> None:
    assert found["by example"][0] == []


def test_it_leaves_no_trace(found: dict[str, Any]) -> None:
    for name in ("by example", "within"):
        _, weights, history = found[name]
        _, same, known = found["left out" if name == "within" else "by example, left out"]
        assert history == known
        assert all(np.array_equal(a, b) for a, b in zip(weights, same, strict=True))


def test_it_can_be_left_out_and_is_where_steps_are_not_to_be_equal(found: dict[str, Any]) -> None:
    assert found["left out"][0] == []
    assert found["compressed"][0] == []


def under_servers(ctx: FakeContext) -> Any:
    names = ("centred", "by example", "summing", "averaging")
    return [warned(ctx, name, MODELS[name](), strategy=ParameterServer(sync=True))[0] for name in names]


def test_parameter_servers_are_guarded() -> None:
    centred, by_example, summing, averaging = run_gang(3, under_servers, servers=1)[0]
    assert "Centred" in centred[0] and not by_example
    assert told_of(summing) == ["total", "largest", "examples"] and not averaging


def on_devices(ctx: FakeContext) -> Any:
    import tensorflow as tf

    from jupyter_dtf.schema.strategy import Pipeline

    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    names = ("within", "by example", "summing", "averaging")
    replicas = [warned(ctx, name, MODELS[name](), strategy=InGraph())[0] for name in names]
    pipelines = []
    for name in ("within", "centred", "by example", "summing", "averaging"):
        model = MODELS[name]()
        strategy = Pipeline(halves(model, 1), microbatches=3)
        pipelines.append(warned(ctx, f"pipeline {name}", model, strategy=strategy)[0])
    return replicas, pipelines


def test_replicas_and_pipelines_are_guarded() -> None:
    ((replicas, pipelines),) = run_gang(1, on_devices)
    assert len(replicas[0]) == 1 and not replicas[1]
    assert told_of(replicas[2]) == ["total", "largest", "examples"] and not replicas[3]
    within, centred, by_example, summing, averaging = pipelines
    assert not within  # the loss of a pipeline sees the whole batch
    assert "on 3 shares" in centred[0] and not by_example
    assert not summing and told_of(averaging) == ["mean"]  # each microbatch has changed it


def test_what_only_the_first_of_several_steps_changes_is_compared() -> None:
    """An example is a row of an embedding that no later batch looks up."""
    import keras

    from jupyter_dtf.backend.task.fit.repeated_step import _noting_apply

    rows, optimizer = keras.Variable([1.0, 1.0, 1.0]), keras.optimizers.SGD(0.5)
    optimizer.build([rows])
    noted: dict[int, Any] = {}
    for gradient in ([-2.0, 0.0, 0.0], [1.0, 3.0, 0.0]):
        _noting_apply(optimizer, noted, [keras.ops.convert_to_tensor(gradient)], [rows])
    assert noted[id(rows)].tolist() == [2.0, 3.0, 0.0]


WORDS = ["one", "two", "three", "four", "five", "six", "seven"]


def of_texts(**layer: Any) -> Any:
    import keras
    import tensorflow as tf

    mask = layer.pop("mask_zero", False)
    keras.utils.set_random_seed(3)
    vectorize = keras.layers.TextVectorization(vocabulary=WORDS, name="words", **layer)
    layers = [vectorize, keras.layers.Embedding(12, 6, mask_zero=mask), keras.layers.GlobalAveragePooling1D()]
    model = keras.Sequential([keras.Input((1,), dtype=tf.string), *layers, keras.layers.Dense(3)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def test_texts_that_are_padded_to_the_longest_of_a_share_are_told_of() -> None:
    """The warning requires no custom parts: all layers are Keras's own."""

    def program(ctx: FakeContext) -> Any:
        first_step_check.BUDGET_S = LIMIT_S
        texts = np.array([" ".join(WORDS[:length]) for length in (7, 1, 2, 3, 1, 2, 1, 1)], object)[:, None]
        labels = np.arange(8) % 3
        found = {}
        for name, layer in {
            "longest": {},
            "masked": {"mask_zero": True},
            "fixed": {"output_sequence_length": 7},
        }.items():
            here, _ = fit(
                ctx, name, lambda layer=layer: of_texts(**layer), texts, labels, batch_size=8, strategy=AllReduce()
            )
            found[name] = [title for level, title, _ in here.notes if level == "warning"]
        return found

    found = run_gang(2, program)[0]
    assert found["longest"] == ["Padding depends on how the batch is divided", WARNING]
    assert found["masked"] == found["fixed"] == []


def test_shares_of_a_batch() -> None:
    assert Parts(3).bounds(8) == [(0, 2), (2, 5), (5, 8)]
    assert Parts(3).bounds(2) == [(0, 0), (0, 1), (1, 2)]
    assert Parts(3, in_turn=True).bounds(2) == [(0, 1), (1, 2)]


def test_what_a_model_has_of_its_own() -> None:
    import keras

    class Own(keras.optimizers.SGD):
        pass

    assert own_parts(keras_own()) == []
    assert own_parts(network("mse", keras.layers.BatchNormalization(), metrics=["accuracy"])) == []
    assert own_parts(network(by_example)) == ["by_example"]
    assert own_parts(network(keras.losses.Huber(), optimizer=Own())) == ["Own"]
    assert own_parts(network("mse", keras.layers.Dense(3, activation=lambda x: x * 2))) == ["<lambda>"]
    assert own_parts(centred()) == ["Centred"]


def test_what_takes_long_is_left_alone() -> None:
    import keras

    class Slow(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return keras.ops.sum([x @ keras.ops.transpose(x) @ x for _ in range(3)], 0)

    model = network(by_example, Slow())
    x, y = digits(40_000)
    ctx = FakeContext(0, 2, None, None, [])  # type: ignore[arg-type]
    asked = []

    def batches(count: int) -> list[Any]:
        asked.append(count)
        return [(x, y)]

    guard = Guard(model, ctx, Parts(2), batches, own=own_parts(model), metrics=[])
    guard.remember()
    before = model.get_weights()
    guard.compare(1)
    assert asked == [1]
    assert [note[:2] for note in ctx.notes] == [("info", NOT_COMPARED)]
    assert ctx.notes[0][2].startswith("Repeating it would take longer than")
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))


def test_more_is_rounding_where_a_gpu_multiplies_with_less_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network(by_example)
    ctx = FakeContext(0, 2, None, None, [])  # type: ignore[arg-type]
    guard = Guard(model, ctx, Parts(2), lambda _count: [], own=["by_example"], metrics=[])
    (kernel, *_) = model.trainable_variables
    assert guard._limit(kernel) == first_step_check.LIMIT
    monkeypatch.setattr(first_step_check, "_uses_tensor_float", lambda: True)
    assert guard._limit(kernel) == first_step_check.TENSOR_FLOAT_LIMIT


def test_steps_whose_batches_are_not_kept_are_not_compared() -> None:
    """A feed keeps only two batches; a comparison of two steps with three would give a false warning."""
    model = network(by_example)
    x, y = digits(24)
    ctx = FakeContext(0, 2, None, None, [])  # type: ignore[arg-type]
    batches = [(x[:12], y[:12]), (x[12:], y[12:])]
    guard = Guard(model, ctx, Parts(2), lambda count: batches, own=["by_example"], metrics=[])
    guard.remember()
    before = model.get_weights()
    guard.compare(3)
    ((level, _, text),) = ctx.notes
    assert level == "info" and text.endswith("of its 3 batches, only 2 are still kept")
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))


def test_metrics_are_left_out_if_only_they_take_too_long() -> None:
    model = network(by_example)
    x, y = digits(24)

    def compared(seconds: float) -> tuple[bool, list[str]]:
        ctx = FakeContext(0, 2, None, None, [])  # type: ignore[arg-type]
        guard = Guard(model, ctx, Parts(2), lambda _count: [(x, y)], own=["by_example"], metrics=["own"])
        return guard._fits(seconds), guard._metrics

    budget = first_step_check.BUDGET_S
    assert compared(budget / 6) == (True, ["own"])
    assert compared(budget / 4) == (True, [])
    assert compared(budget / 2)[0] is False
