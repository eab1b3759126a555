"""``jupyter dtf demo``: trains a small network on handwritten digits with a few workers on this machine."""

from __future__ import annotations

import time
from importlib.util import find_spec

from ..client import terminal
from ..client.cluster import Cluster
from ..errors import Unavailable


def demo(workers: int = 2, epochs: int = 10) -> float:
    """Train, and report the progress on standard output. Returns the accuracy on held-out digits.

    Raises InvalidInput, and Unavailable if Keras or scikit-learn, which provides the digits, is not installed.
    """
    for module, package in (("keras", "jupyter-dtf[cpu]"), ("sklearn", "scikit-learn")):
        if find_spec(module) is None:
            raise Unavailable(f"The demo needs {module}, which is not installed: pip install {package}")
    started = time.monotonic()
    with Cluster(jobs={"worker": workers}) as cluster:  # starts while Keras is imported here
        _say(f"Started the cluster {cluster.name}: {workers} TensorFlow processes on this machine.")
        import keras

        keras.utils.set_random_seed(1)
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        x, y = load_digits(return_X_y=True)
        x, x_test, y, y_test = train_test_split(x / 16.0, y, test_size=0.2, random_state=1)
        model = keras.Sequential(
            [
                keras.Input((64,)),
                keras.layers.Dense(128, activation="relu"),
                keras.layers.Dense(10, activation="softmax"),
            ],
            name="digits",
        )
        model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
        _say(f"Training {model.count_params():,} weights on {len(x):,} handwritten digits.")
        submitted = time.monotonic()
        cluster.fit(model, x, y, batch_size=64, epochs=epochs, validation_data=(x_test, y_test))
        trained = time.monotonic()
        _, accuracy = model.evaluate(x_test, y_test, verbose=0)
    _say(
        f"{accuracy:.1%} of {len(x_test)} held-out digits are classified correctly. "
        f"Training took {trained - submitted:.1f} s, the whole demo {time.monotonic() - started:.1f} s."
    )
    return float(accuracy)


def _say(text: str) -> None:
    terminal.say(text)
