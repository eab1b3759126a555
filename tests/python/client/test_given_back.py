"""Objects that the caller passed to a callback, and may read, get the contents of their copies."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from jupyter_dtf.backend.task.fit.callback_pickles import Pickles
from jupyter_dtf.client.given_back import give_attributes


def small(units: int = 2) -> Any:
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(units)])


def test_what_fits_keeps_its_identity() -> None:
    held: dict[str, Any] = {
        "log": [1, {"a": [2]}],
        "seen": {1},
        "table": np.zeros(2),
        "count": tf.Variable(1.0),
        "weight": keras.Variable(1.0),
        "teacher": small(),
        "mean": keras.metrics.Mean(),
    }
    inner = held["log"][1]["a"]
    teacher, mean = small(), keras.metrics.Mean()
    mean.update_state([1.0, 3.0])
    new = {
        "log": [5, {"a": [6, 7]}, 8],
        "seen": {2, 3},
        "table": np.ones(2),
        "count": tf.Variable(4.0),
        "weight": keras.Variable(5.0),
        "teacher": teacher,
        "mean": mean,
    }
    callback = SimpleNamespace(**held)
    give_attributes(callback, new)
    assert all(getattr(callback, name) is value for name, value in held.items())
    assert held["log"] == [5, {"a": [6, 7]}, 8] and held["log"][1]["a"] is inner
    assert held["seen"] == {2, 3} and held["table"].tolist() == [1.0, 1.0]
    assert float(held["count"]) == 4.0 and float(held["weight"]) == 5.0
    assert all(map(np.array_equal, held["teacher"].get_weights(), teacher.get_weights()))
    assert float(held["mean"].result()) == 2.0


def test_what_does_not_fit_is_replaced() -> None:
    callback = SimpleNamespace(table=np.zeros(2), teacher=small(2), log=[1], number=1)
    new = {"table": np.ones(3), "teacher": small(3), "log": (2,), "number": 2, "more": "new"}
    give_attributes(callback, new)
    assert all(vars(callback)[name] is value for name, value in new.items())


def test_a_metric_travels_with_what_it_has_counted() -> None:
    mean = keras.metrics.Mean(name="own")
    mean.update_state([1.0, 2.0])
    pickles = Pickles(lambda: None)
    found = pickles.loads(pickles.dumps({"mean": mean}))["mean"]
    assert float(found.result()) == 1.5 and found.name == "own"
    assert float(pickle.loads(pickle.dumps(mean)).result()) == 0.0  # a plain pickle loses its state
