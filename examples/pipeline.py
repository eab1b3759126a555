"""A network with a skip connection as a pipeline of two tasks; prints planned and actual devices.

Run it with ``python examples/pipeline.py``.
"""

from __future__ import annotations

from typing import Any

import jupyter_dtf as dtf  # before TensorFlow, to suppress TensorFlow's messages about its build

# isort: split

import keras
import numpy as np
from sklearn.datasets import load_digits


def network() -> Any:
    """Return a model for two stages. The second stage also gets the input of the first one."""
    layers = keras.layers
    digits = keras.Input((64,))
    hidden = layers.Dense(128, activation="relu", name="widen")(digits)
    hidden = layers.Dense(128, activation="relu", name="first")(hidden)
    hidden = layers.Dense(64, activation="relu", name="second")(hidden)
    joined = layers.Concatenate(name="skip")([hidden, digits])
    model = keras.Model(digits, layers.Dense(10, name="classes")(joined))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(0.005), loss=loss, metrics=["accuracy"])
    return model


def main() -> None:
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    model = network()
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        first, second = cluster.main_devices
        placement = {"widen": first, "first": first, "second": second, "classes": second}
        strategy = dtf.Pipeline(placement, microbatches=4)
        run = cluster.fit(model, x, y, batch_size=128, epochs=8, validation_split=0.2, strategy=strategy)
        print(run.placement().to_string())
        print(f"{run.history.history['val_accuracy'][-1]:.1%} of the digits it had not seen")


if __name__ == "__main__":
    main()
