"""Tests of the graph of layers of every kind of Keras model: sequential, functional, nested and subclassed."""

from __future__ import annotations

from typing import Any

import keras
import pytest
import tensorflow as tf

from jupyter_dtf.backend.task.describe.layer_graph import describe
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.graph import LayerGraph

layers = keras.layers


def edges(graph: LayerGraph) -> list[tuple[str, str, int]]:
    return [(edge.source, edge.target, edge.bytes) for edge in graph.edges]


def inputs(graph: LayerGraph) -> list[tuple[str, list[int], str, list[str]]]:
    return [(found.name, found.shape, found.dtype, found.targets) for found in graph.inputs]


def layer(graph: LayerGraph, name: str) -> Any:
    return next(found for found in graph.layers if found.id == name)


def test_a_chain_and_what_its_layers_need() -> None:
    model = keras.Sequential(
        [keras.Input((8, 8, 3)), layers.Conv2D(4, 3, name="c"), layers.Flatten(name="f"), layers.Dense(10, name="d")]
    )
    model.compile("adam", "mse")
    graph = describe(model)
    assert edges(graph) == [("c", "f", 6 * 6 * 4 * 4), ("f", "d", 144 * 4)]
    convolution, dense = layer(graph, "c"), layer(graph, "d")
    assert convolution.kind == "Conv2D"
    assert convolution.output_shapes == [[1, 6, 6, 4]]
    assert convolution.parameters == 3 * 3 * 3 * 4 + 4
    assert convolution.flops == 2 * 27 * 144 + 144
    assert dense.flops == 2 * 144 * 10 + 10
    assert (dense.parameter_bytes, dense.gradient_bytes, dense.slot_bytes) == (5_800, 5_800, 11_600)
    assert layer(graph, "f").flops == 0
    assert not graph.notes


def test_nested_models_skips_and_shared_layers() -> None:
    inner = keras.Sequential([layers.Dense(4, name="one"), layers.Dense(4, name="two")], name="inner")
    shared = layers.Dense(4, name="shared")
    inputs = keras.Input((4,))
    first = shared(inputs)
    outputs = layers.Add(name="sum")([shared(inner(first)), first])
    graph = describe(keras.Model(inputs, outputs))
    assert [found.id for found in graph.layers] == ["shared", "inner/one", "inner/two", "sum"]
    assert layer(graph, "shared").calls == 2
    assert layer(graph, "shared").flops == 2 * (2 * 4 * 4 + 4)
    assert edges(graph) == [
        ("shared", "inner/one", 16),
        ("shared", "sum", 32),
        ("inner/one", "inner/two", 16),
        ("inner/two", "shared", 16),
    ]


class Subclassed(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.embed = layers.Embedding(50, 6, name="embed")
        self.attend = layers.MultiHeadAttention(2, 3, name="attend")
        self.out = layers.Dense(2, name="out")

    def call(self, tokens: Any) -> Any:
        x = self.embed(tokens)
        x = self.attend(x, x) + x
        return self.out(tf.reduce_mean(tf.matmul(x, x, transpose_b=True) @ x, axis=1))


def test_a_layer_that_returns_its_input_is_on_the_way() -> None:
    layers = [keras.layers.Dense(8, name="a"), keras.layers.Dropout(0.1, name="drop"), keras.layers.Dense(4, name="b")]
    graph = describe(keras.Sequential([keras.Input((64,)), *layers]))
    assert [(edge.source, edge.target) for edge in graph.edges] == [("a", "drop"), ("drop", "b")]


def test_a_subclassed_model_as_deep_as_it_can_be_seen() -> None:
    graph = describe(Subclassed(), input_shapes=(None, 5))
    assert [found.id for found in graph.layers] == ["embed", "attend", "out"]
    assert edges(graph) == [("embed", "attend", 120), ("embed", "out", 120), ("attend", "out", 120)]
    assert layer(graph, "attend").kind == "MultiHeadAttention"
    (note,) = graph.notes
    assert "of the computation is outside of layers" in note


def test_a_loop_counts_once_for_each_time_step() -> None:
    short, long = (
        layer(describe(keras.Sequential([keras.Input((steps, 5)), layers.LSTM(6, name="lstm")])), "lstm").flops
        for steps in (10, 20)
    )
    assert short > 10 * 2 * 4 * 6 * (5 + 6)
    assert long == pytest.approx(2 * short, rel=0.05)


def test_several_inputs_by_name_and_unknown_dimensions() -> None:
    one, two = keras.Input((None, 3), name="one"), keras.Input((3,), name="two")
    pooled = layers.GlobalAveragePooling1D(name="pool")(one)
    model = keras.Model({"two": two, "one": one}, layers.Concatenate(name="both")([pooled, two]))
    graph = describe(model)
    assert edges(graph) == [("pool", "both", 12)]
    assert inputs(graph) == [("one", [1, 1, 3], "float32", ["pool"]), ("two", [1, 3], "float32", ["both"])]
    assert graph.notes == ["Unknown dimensions (indices [1]) are assumed to be 1. Pass input_shapes"]
    known = describe(model, input_shapes={"one": (None, 7, 3), "two": (None, 3)})
    assert inputs(known)[0] == ("one", [1, 7, 3], "float32", ["pool"])
    assert not known.notes


def test_an_input_goes_to_all_layers_that_take_it_and_to_no_others() -> None:
    pixels, words = keras.Input((8,), name="pixels"), keras.Input((4,), name="words", dtype="int32")
    inner = keras.Sequential([layers.Dense(4, name="one"), layers.Dense(4, name="two")], name="inner")
    embedded = layers.Flatten(name="flat")(layers.Embedding(9, 2, name="embed")(words))
    both = layers.Concatenate(name="both")([inner(pixels / 255.0), embedded, pixels])
    graph = describe(keras.Model([words, pixels], layers.Dropout(0.1, name="drop")(both)))
    assert inputs(graph) == [
        ("words", [1, 4], "int32", ["embed"]),
        ("pixels", [1, 8], "float32", ["inner/one", "both"]),
    ]
    assert {found.id for found in graph.layers} == {"inner/one", "inner/two", "embed", "flat", "both", "drop"}


class OfPairs(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = layers.Dense(2, name="one"), layers.Dense(2, name="two")

    def call(self, pair: Any) -> Any:
        first, second = pair.values() if isinstance(pair, dict) else pair
        return self.one(first) + self.two(second)


def test_inputs_of_a_subclassed_model_are_named_as_its_argument() -> None:
    """Their dtype is empty, because a subclassed model does not declare it."""
    assert inputs(describe(Subclassed(), input_shapes=(None, 5))) == [("tokens", [1, 5], "", ["embed"])]
    assert inputs(describe(OfPairs(), input_shapes=[(None, 5), (None, 3)])) == [
        ("pair[0]", [1, 5], "", ["one"]),
        ("pair[1]", [1, 3], "", ["two"]),
    ]
    assert inputs(describe(OfPairs(), input_shapes={"b": (None, 5), "a": (None, 3)})) == [
        ("a", [1, 3], "", ["two"]),
        ("b", [1, 5], "", ["one"]),
    ]


def test_what_cannot_be_described_is_refused() -> None:
    with pytest.raises(InvalidInput, match="`model` must be a keras.Model, got 3"):
        describe(3)
    with pytest.raises(InvalidInput, match="`input_shapes` must be given"):
        describe(keras.Sequential([layers.Dense(2)]))
