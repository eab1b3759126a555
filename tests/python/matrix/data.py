"""Scikit-learn's digits in the shapes that the rows of the matrix need: a few dozen examples, always the same ones."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

EXAMPLES = 44
"""Batches of 12, 12, 12 and 8: the last one cannot be divided evenly among three tasks."""
FIT: dict[str, Any] = {"batch_size": 12, "epochs": 2, "shuffle": False}
CLASSES = 10
WORDS = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])


@cache
def images() -> Any:
    """(44, 8, 8, 1), float32 from 0 to 1."""
    return (load_digits().images[:EXAMPLES, ..., None] / 16).astype("float32")


@cache
def classes() -> Any:
    """(44,), int32."""
    return load_digits().target[:EXAMPLES].astype("int32")


def one_hot() -> Any:
    """(44, 10), float32."""
    return np.eye(CLASSES, dtype="float32")[classes()]


def flat() -> Any:
    """(44, 64), float32."""
    return images().reshape(EXAMPLES, 64)


def vector() -> Any:
    """(44, 8), float32 around 0: the mean of each column of pixels."""
    return images()[..., 0].mean(1) * 2 - 0.5


def sequence() -> Any:
    """(44, 6, 4), float32."""
    return images()[:, 1:7, 2:6, 0]


def picture() -> Any:
    """(44, 8, 8, 3), float32 from 0 to 1."""
    return np.concatenate([images(), images()[:, ::-1], images()[:, :, ::-1]], -1)


def volume() -> Any:
    """(44, 4, 4, 4, 2), float32."""
    return images()[..., 0].reshape(EXAMPLES, 4, 4, 4)[..., None] * np.array([1.0, -0.5], "float32")


def film() -> Any:
    """(44, 3, 8, 8, 1), float32: three frames, in which a picture moves to the right."""
    return np.stack([np.roll(images(), shift, 2) for shift in range(3)], 1)


def tokens() -> Any:
    """(44, 6), int32 from 0 to 16; 0 is the padding at the end of some rows."""
    found = load_digits().images[:EXAMPLES, 3, 1:7].astype("int32")
    ends = classes() % 5 + 2
    return np.where(np.arange(6)[None] < ends[:, None], np.maximum(found, 1), 0).astype("int32")


def words() -> Any:
    """(44, 1), strings in a tensor, because Keras does not accept NumPy arrays of strings."""
    return _strings(WORDS[classes()])


def sentences() -> Any:
    """(44, 1), strings of two words each, in a tensor."""
    return _strings([f"{a} {b}" for a, b in zip(WORDS[classes()], WORDS[::-1][classes()], strict=True)])


def _strings(values: Any) -> Any:
    import tensorflow as tf

    return tf.constant([[value] for value in values])


def sound() -> Any:
    """(44, 64), float32: a picture as a waveform."""
    return flat() * 2 - 1


def target() -> Any:
    """(44, 1), float32: a number to predict that depends on all pixels."""
    return (flat() @ np.linspace(-0.5, 0.5, 64).astype("float32"))[:, None]
