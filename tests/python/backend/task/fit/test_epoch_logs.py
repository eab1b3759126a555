"""Tests of the numbers that are reported from an epoch's logs."""

from __future__ import annotations

import numpy as np

from jupyter_dtf.backend.task.fit.callbacks import MOST_OF_A_VECTOR, numbers_of


def test_numbers_of_any_type_and_those_of_short_vectors_are_reported() -> None:
    scores = np.array([0.25, 0.5], "float32")
    logs = {"loss": 0.5, "epochs": 3, "steps": np.int64(7), "rate": np.float32(0.5), "f1": scores, "said": "well"}
    assert numbers_of(logs) == {
        "loss": 0.5,
        "epochs": 3.0,
        "steps": 7.0,
        "rate": 0.5,
        "f1[0]": 0.25,
        "f1[1]": 0.5,
    }


def test_long_vectors_matrices_and_texts_are_not() -> None:
    logs = {
        "long": np.zeros(MOST_OF_A_VECTOR + 1),
        "matrix": np.zeros((2, 2)),
        "words": np.array(["a", "b"]),
        "complex": np.array([1 + 1j]),
    }
    assert numbers_of(logs) == {}
