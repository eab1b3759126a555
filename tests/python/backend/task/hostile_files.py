"""Model files that do something when they are loaded: each writes a marker file if any code that it contains is run."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import keras
import tensorflow as tf

DENSE = {"module": "keras.layers", "class_name": "Dense", "config": {"units": 2}, "registered_name": None}


def saved_model_that_writes(path: Path, marker: Path) -> None:
    """Write a SavedModel with a resource whose initializer writes a file, and with an ordinary signature."""

    class Writes(tf.saved_model.experimental.TrackableResource):
        def _create_resource(self) -> Any:
            return tf.raw_ops.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64)

        def _initialize(self) -> None:
            tf.io.write_file(str(marker), "written")

    module = tf.Module()
    module.resource = Writes()
    module.weight = tf.Variable(tf.ones((3, 2)))

    @tf.function(input_signature=[tf.TensorSpec((None, 3))])
    def serve(x: Any) -> Any:
        with tf.name_scope("model"), tf.name_scope("dense"):
            return {"y": tf.matmul(x, module.weight)}

    module.serve = serve
    tf.saved_model.save(module, str(path), signatures=serve)


def keras_file(path: Path, layer: Any, **more: Any) -> None:
    """Write a ``.keras`` file of a Sequential that contains a layer with this configuration."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", json.dumps(sequential(layer) | more))
        archive.writestr("metadata.json", json.dumps({"keras_version": keras.__version__}))


def h5_file(path: Path, layer: Any, training: Any = None) -> None:
    """Write an ``.h5`` file of a Sequential that contains a layer with this configuration."""
    with h5py.File(path, "w") as file:
        file.attrs["keras_version"] = keras.__version__
        file.attrs["backend"] = "tensorflow"
        file.attrs["model_config"] = json.dumps({"class_name": "Sequential", "config": sequential(layer)["config"]})
        if training is not None:
            file.attrs["training_config"] = json.dumps(training)
        file.create_group("model_weights")


def sequential(layer: Any) -> dict[str, Any]:
    start = {
        "module": "keras.layers",
        "class_name": "InputLayer",
        "config": {"batch_shape": [None, 3], "dtype": "float32", "name": "in"},
        "registered_name": None,
    }
    return {
        "module": "keras",
        "class_name": "Sequential",
        "config": {"name": "hostile", "layers": [start, layer]},
        "registered_name": None,
    }


def lambda_that_writes(marker: Path) -> dict[str, Any]:
    """Return the configuration of a Lambda layer with its bytecode, as Keras writes it."""
    name = str(marker)
    layer = keras.layers.Lambda(lambda x: (tf.io.write_file(name, "written"), x)[1] if name else x)
    config: dict[str, Any] = keras.saving.serialize_keras_object(layer)
    return config


def of_module(module: Path, marker: Path) -> dict[str, Any]:
    """Return the configuration of a layer from a module that writes a file when it is imported."""
    module.write_text(f"open({str(marker)!r}, 'w').close()\n")
    return {"module": module.stem, "class_name": "Layer", "config": {}, "registered_name": f"{module.stem}>Layer"}


def of_saved_model(path: Path) -> dict[str, Any]:
    """Return the configuration of a layer that loads a SavedModel from a path."""
    config = {"filepath": str(path), "call_endpoint": "serving_default", "name": "tfsm", "dtype": "float32"}
    return {"module": "keras.layers", "class_name": "TFSMLayer", "config": config, "registered_name": None}


def of_function(name: str) -> dict[str, Any]:
    """Return the configuration of a layer whose activation is a registered function."""
    function = {"module": None, "class_name": "function", "config": name, "registered_name": name}
    return {**DENSE, "config": {"units": 2, "activation": function}}


def of_vocabulary(path: Path) -> dict[str, Any]:
    """Return the configuration of a layer that reads its vocabulary from a file at a path."""
    return {**DENSE, "class_name": "StringLookup", "config": {"vocabulary": str(path)}}


def zipped(**members: str | bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_json", ".json"), content)
    return buffer.getvalue()


WRITERS: dict[str, Callable[[Path, Any], None]] = {".keras": keras_file, ".h5": h5_file}
