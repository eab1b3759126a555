"""Tests of ``run.history``, a mapping with the attributes of Keras's ``History``."""

from __future__ import annotations

import pytest

from jupyter_dtf.client.run_results import History


def test_a_history_is_a_mapping_and_has_what_keras_has() -> None:
    history = History({"loss": [0.5, 0.25], "accuracy": [0.1, 0.75]}, [0, 1], {"epochs": 2}, lambda: "the model")
    assert list(history) == ["loss", "accuracy"]
    assert len(history) == 2
    assert "loss" in history
    assert "val_loss" not in history
    assert history["loss"] == [0.5, 0.25]
    assert history.get("val_loss") is None
    assert dict(history.items()) == history.history
    assert list(history.values()) == list(history.history.values())
    assert list(history.keys()) == ["loss", "accuracy"]
    assert (history.epoch, history.params, history.model) == ([0, 1], {"epochs": 2}, "the model")
    assert repr(history) == "<History of 2 epochs: loss 0.25, accuracy 0.75>"
    with pytest.raises(KeyError):
        history["val_loss"]


def test_a_history_without_epochs_is_there_all_the_same() -> None:
    history = History({}, [])
    assert bool(history)
    assert (len(history), list(history), history.model) == (0, [], None)
    assert repr(history) == "<History of 0 epochs>"
