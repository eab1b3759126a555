"""Writes ``published_models.json``: the layers of published networks from keras.applications, without their weights.

Run it with ``python tests/python/backend/planning/make_published_models.py``. AlexNet, which Keras does not have, is
built here as in TensorFlow's benchmarks of 2017. The tests read the file, so they need not import TensorFlow.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("published_models.json")


def alexnet() -> Any:
    """Return AlexNet for inputs of 224 x 224, as in ``tf_cnn_benchmarks`` (one replica, after Krizhevsky 2014,
    arXiv:1404.5997).
    """
    import keras

    conv = keras.layers.Conv2D
    return keras.Sequential(
        [
            keras.Input((224, 224, 3)),
            conv(64, 11, strides=4, activation="relu"),
            keras.layers.MaxPooling2D(3, 2),
            conv(192, 5, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(3, 2),
            conv(384, 3, padding="same", activation="relu"),
            conv(384, 3, padding="same", activation="relu"),
            conv(256, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(3, 2),
            keras.layers.Flatten(),
            keras.layers.Dense(4096, activation="relu"),
            keras.layers.Dense(4096, activation="relu"),
            keras.layers.Dense(1001),
        ],
        name="alexnet",
    )


def main() -> None:
    import keras

    import jupyter_dtf as dtf

    known = keras.applications
    makers = {
        "AlexNet": alexnet,
        "Inception V3": lambda: known.InceptionV3(weights=None),
        "ResNet-50": lambda: known.ResNet50(weights=None),
        "ResNet-101": lambda: known.ResNet101(weights=None),
        "ResNet-152": lambda: known.ResNet152(weights=None),
        "VGG-16": lambda: known.VGG16(weights=None),
    }
    lines = []
    for name, make in makers.items():
        model = make()
        model.compile(optimizer="sgd")
        rows = [
            json.dumps(
                [
                    layer.kind,
                    [shape[1:] for shape in layer.input_shapes],
                    [shape[1:] for shape in layer.output_shapes],
                    layer.parameters,
                    layer.gradient_bytes // 4,
                    layer.activation_bytes,
                    layer.flops,
                ],
                separators=(",", ":"),
            )
            for layer in dtf.describe(model).layers
            if layer.flops or layer.parameters
        ]
        lines.append(f" {json.dumps(name)}: [\n  " + ",\n  ".join(rows) + "\n ]")
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
