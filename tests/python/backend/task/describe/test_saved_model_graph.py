"""Tests of the graph of layers of SavedModels that Keras has exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

from jupyter_dtf.backend.task.describe.layer_graph import describe
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.subprocess_jobs.describe_file import describe_file

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # from Keras, when saving


def digits() -> Any:
    inputs = keras.Input((16,))
    encoder = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.BatchNormalization()], name="e")
    x = encoder(inputs)
    y = keras.layers.Dense(8, name="skipped")(x)
    return keras.Model(inputs, keras.layers.Dense(2, name="head")(keras.layers.Add(name="sum")([x, y])), name="digits")


def test_layers_are_those_of_the_model_that_was_exported(tmp_path: Path) -> None:
    model = digits()
    model.export(tmp_path / "digits", verbose=False)
    graph = describe_file(tmp_path / "digits")
    expected = describe(model)
    assert [layer.id for layer in graph.layers] == [layer.id for layer in expected.layers]
    assert [layer.parameters for layer in graph.layers] == [layer.parameters for layer in expected.layers]
    assert [layer.output_shapes for layer in graph.layers] == [layer.output_shapes for layer in expected.layers]
    assert {(edge.source, edge.target, edge.bytes) for edge in graph.edges} == {
        (edge.source, edge.target, edge.bytes) for edge in expected.edges
    }
    assert [layer.kind for layer in graph.layers] == ["Dense", "Normalization", "Dense", "AddV2", "Dense"]
    assert graph.layers[0].flops == expected.layers[0].flops
    assert graph.model == "digits" and len(graph.notes) == 1


def test_layers_with_layers_and_loops_in_them(tmp_path: Path) -> None:
    keras.utils.clear_session()  # otherwise, names would be numbered after those of other tests
    tokens = keras.Input((5,), dtype="int32")
    embedded = keras.layers.Embedding(20, 8)(tokens)
    attended = keras.layers.MultiHeadAttention(2, 4, name="attention")(embedded, embedded)
    model = keras.Model(tokens, keras.layers.LSTM(4)(attended), name="text")
    model.export(tmp_path / "text", verbose=False)
    graph = describe_file(tmp_path / "text")
    assert [(layer.id, layer.kind) for layer in graph.layers] == [
        ("embedding", "Embedding"),
        ("attention", "Attention"),
        ("lstm", "RNN"),
    ]
    assert [layer.parameters for layer in graph.layers] == [layer.count_params() for layer in model.layers[1:]]
    expected = describe(model).layers[2].flops
    assert 0.8 * expected < graph.layers[2].flops <= expected  # the file lacks some shapes within the loop
    assert [(edge.source, edge.target) for edge in graph.edges] == [("embedding", "attention"), ("attention", "lstm")]


def test_one_without_a_signature_is_refused(tmp_path: Path) -> None:
    tf.saved_model.save(tf.Module(), str(tmp_path / "bare"))
    with pytest.raises(InvalidInput, match="A SavedModel must have a signature, got 'bare', which has none"):
        describe_file(tmp_path / "bare")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "saved_model.pb").write_bytes(b"no model")
    with pytest.raises(InvalidInput, match="broken cannot be read. "):
        describe_file(tmp_path / "broken")
