"""Tests of what only pipelines have: placed and split layers, replicas, and statistics of microbatches."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from jupyter_dtf.schema.placement import Placement

from ...gang import FakeContext, run_gang
from ..cases import digits
from .placed import device, fit


def branches() -> Any:
    """Return a model with an embedding, two branches that share a layer, and a skip connection around them."""
    import keras

    keras.utils.set_random_seed(3)
    layers = keras.layers
    words, numbers = keras.Input((4,), dtype="int32", name="words"), keras.Input((6,), name="numbers")
    table = layers.Flatten(name="flat")(layers.Embedding(9, 5, name="table")(words))
    shared = layers.Dense(6, activation="tanh", name="shared")
    a, b = shared(numbers), shared(layers.Dense(6, name="b")(table))
    wide = layers.Dense(11, activation="softmax", name="wide", kernel_regularizer="l2")(layers.Add(name="sum")([a, b]))
    out = layers.Dense(3, name="out")(layers.Concatenate(name="skip")([wide, numbers]))
    model = keras.Model({"words": words, "numbers": numbers}, out)
    optimizer = keras.optimizers.Adam(0.02, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=3)
    optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0**127, dynamic_growth_steps=3)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


BRANCHES = {
    "table": device(1), "flat": device(1), "shared": device(0), "b": device(2), "sum": device(2), "wide": device(1),
    "out": device(0),
}  # fmt: skip
SPLIT = Placement(
    devices={name: where for name, where in BRANCHES.items() if name not in ("table", "wide")},
    splits={"table": [device(1), device(2)], "wide": [device(2), device(0), device(1)]},
)


def data() -> dict[str, Any]:
    x, y = digits(43)
    words = np.random.default_rng(2).integers(0, 9, size=(43, 4)).astype("int32")
    return {"x": {"words": words, "numbers": x}, "y": y, "batch_size": 10, "epochs": 2, "shuffle": False}


def trained(ctx: FakeContext, placement: Any, **arguments: Any) -> Any:
    """Train a placed model, and the same model in this process. Return the state of both, and where layers ran."""
    from jupyter_dtf.backend.records.trace_files import read_placement

    ours, theirs = branches(), branches()
    _, here = fit(ctx, ours, **data(), placement=placement, **arguments)
    if here is None:
        return None
    theirs.fit(**data(), verbose=0)
    return [_state(ours), _state(theirs), read_placement(here.run_dir).layers]


def _state(model: Any) -> list[Any]:
    return [variable.numpy() for variable in (*model.variables, *model.optimizer.variables)]


def replicated(ctx: FakeContext) -> Any:
    """Train two copies, each on two tasks, and the model in one process at twice the learning rate; return the results.

    The last batch has a single example, so one copy gets none of it.
    """
    import keras

    keras.utils.set_random_seed(3)

    def model(rate: float) -> Any:
        layers = [keras.Input((6,)), keras.layers.Dense(5, "tanh", name="a"), keras.layers.Dense(3, name="b")]
        made = keras.Sequential(layers)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        made.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
        return made

    theirs, ours = model(0.04), model(0.02)
    ours.set_weights(theirs.get_weights())
    x, y = digits(41)
    arguments: dict[str, Any] = {"batch_size": 8, "epochs": 2, "shuffle": False}
    copies: dict[str, Any] = {"replicas": 2, "scale_lr": True, "warmup_epochs": 0}
    placement = {"a": device(0), "b": device(1)}
    _, here = fit(ctx, ours, x, y, placement=placement, microbatches=2, **copies, **arguments)
    if here is None:
        return None
    theirs.fit(x, y, verbose=0, **arguments)
    from jupyter_dtf.backend.records.trace_files import read_placement

    layers = {layer.layer: layer.actual for layer in read_placement(here.run_dir).layers}
    theirs.optimizer.learning_rate = 0.02
    return _state(ours), _state(theirs), ours.history.history, theirs.history.history, layers


def test_copies_of_a_pipeline_learn_what_one_process_does() -> None:
    (ours, theirs, history, expected, layers), *_ = run_gang(4, replicated)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-6)
    for name, values in expected.items():
        np.testing.assert_allclose(history[name], values, rtol=1e-4)
    assert layers == {"a": [device(0), device(2)], "b": [device(1), device(3)]}


def with_empty_batches(ctx: FakeContext) -> Any:
    """Train and validate on batches of which some are empty, in a pipeline and in one process; return the results."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(3)

    def model() -> Any:
        layers = [keras.Input((6,)), keras.layers.Dense(5, "tanh", name="a"), keras.layers.Dense(3, name="b")]
        made = keras.Sequential(layers)
        made.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        return made

    theirs, ours = model(), model()
    ours.set_weights(theirs.get_weights())
    x, y = digits(24)
    parts = tf.data.Dataset.from_tensor_slices((x.reshape(4, 6, -1), y.reshape(4, 6))).enumerate()
    data = parts.map(lambda i, batch: tf.nest.map_structure(lambda a: a[: 6 * (i % 2)], batch))
    placement = {"a": device(0), "b": device(1)}
    arguments: dict[str, Any] = {"epochs": 2, "validation_data": data}
    _, here = fit(ctx, ours, data, placement=placement, microbatches=2, **arguments)
    if here is None:
        return None
    theirs.fit(data, verbose=0, **arguments)
    return _state(ours), _state(theirs), ours.history.history, theirs.history.history


def test_batches_without_examples_are_steps() -> None:
    (ours, theirs, history, expected), *_ = run_gang(2, with_empty_batches)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-6)
    for name, values in expected.items():
        np.testing.assert_allclose(history[name], values, rtol=1e-4)


def placed_and_split(ctx: FakeContext) -> list[Any]:
    return [trained(ctx, BRANCHES, microbatches=3), trained(ctx, SPLIT, microbatches=3)]


def test_layers_run_where_they_were_placed_or_split_and_learn_what_one_process_does() -> None:
    (placed, split), *_ = run_gang(3, placed_and_split)
    for ours, theirs, layers in (placed, split):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-6)
        assert {layer.layer for layer in layers} >= set(BRANCHES)
        for layer in layers:
            if layer.planned:
                assert layer.actual == sorted(layer.planned), layer
    devices = {layer.layer: len(layer.actual) for layer in split[2]}
    assert (devices["table"], devices["wide"], devices["out"]) == (2, 3, 1)


def normalized() -> Any:
    import keras

    keras.utils.set_random_seed(3)
    layers = keras.layers
    model = keras.Sequential([
        keras.Input((6,)),
        layers.Dense(8, name="a"),
        layers.BatchNormalization(momentum=0.5, name="norm"),
        layers.Dropout(0.4, seed=5, name="drop"),
        layers.Dense(3, name="b"),
    ])  # fmt: skip
    model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def by_microbatches(model: Any, x: Any, y: Any, batch: int, microbatches: int) -> None:
    """Train for an epoch in this process: per batch, one forward pass for each microbatch, one loss, and one update."""
    import tensorflow as tf

    for first in range(0, len(x), batch):
        share = x[first : first + batch]
        bounds = [len(share) * number // microbatches for number in range(microbatches + 1)]
        with tf.GradientTape() as tape:
            outputs = [model(share[a:b], training=True) for a, b in pairwise(bounds)]
            loss = model.loss(y[first : first + batch], tf.concat(outputs, 0))
        model.optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)


PLACED = {"a": device(0), "norm": device(1), "drop": device(1), "b": device(0)}


def statistics(ctx: FakeContext) -> Any:
    theirs = normalized()
    x, y = digits(33)
    found = []
    for placement in (PLACED, {layer: place for layer, place in PLACED.items() if layer != "drop"}):
        ours = normalized()
        _, here = fit(ctx, ours, x, y, placement=placement, microbatches=3, batch_size=12, shuffle=False)
        if here is not None:
            found.append(ours.get_weights())
    if ctx.is_chief:
        by_microbatches(theirs, x, y, 12, 3)
    return found, theirs.get_weights()


def test_statistics_and_random_numbers_are_those_of_the_microbatches_in_order() -> None:
    (found, theirs), _ = run_gang(2, statistics)
    assert len(found) == 2
    for ours in found:
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-6)


def test_executions_of_several_steps_are_not_cut_short() -> None:
    """As in Keras, an epoch of three steps has four if two are executed at a time."""

    def program(ctx: FakeContext) -> Any:
        import keras
        import tensorflow as tf

        def model() -> Any:
            keras.utils.set_random_seed(3)
            layers = [keras.Input((6,)), keras.layers.Dense(5), keras.layers.Dense(3, activation="softmax")]
            made = keras.Sequential(layers)
            made.compile("sgd", "sparse_categorical_crossentropy", steps_per_execution=2)
            return made

        def repeated() -> Any:
            return tf.data.Dataset.from_tensor_slices(digits(60)).batch(12).repeat()

        arguments: dict[str, Any] = {"epochs": 2, "steps_per_epoch": 3, "validation_steps": 1}
        ours, here = fit(ctx, model(), repeated(), validation_data=repeated(), **arguments)
        if here is None:
            return None
        theirs = model()
        history = theirs.fit(repeated(), validation_data=repeated(), verbose=0, **arguments).history
        return (
            int(ours.model.optimizer.iterations),
            int(theirs.optimizer.iterations),
            ours.model.history.history,
            history,
        )

    steps, expected, ours, theirs = run_gang(2, program)[0]
    assert steps == expected == 8
    for name, values in theirs.items():
        np.testing.assert_allclose(ours[name], values, rtol=1e-4, err_msg=name)
