"""A network with a skip connection, laid over two tasks: planned and actual devices, and how the step went.

python examples/pipeline.py
"""

from __future__ import annotations

from typing import Any

import jupyter_dtf as dtf  # before TensorFlow, whose remarks on its build it keeps out of the output

# isort: split

import keras
import numpy as np
from sklearn.datasets import load_digits


def network() -> Any:
    """Two stages; the second also sees what the first one began with."""
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
        first, second = cluster.devices
        placement = {"widen": first, "first": first, "second": second, "classes": second}
        strategy = dtf.Pipeline(placement, microbatches=4)
        run = cluster.fit(model, x, y, batch_size=128, epochs=8, validation_split=0.2, strategy=strategy)
        print(run.placement().to_string())
        print(f"{run.history.history['val_accuracy'][-1]:.1%} of the digits it had not seen")


if __name__ == "__main__":
    main()
