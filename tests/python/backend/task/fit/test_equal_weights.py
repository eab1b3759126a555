"""Tests of the messages if the weights of the tasks are not identical."""

from __future__ import annotations

from typing import Any

import keras
import pytest

from jupyter_dtf.backend.task.fit.equal_weights import Weights


class Chief:
    """The reducer of the first of two tasks; the weights of the other one differ by ``apart``."""

    rank, size = 0, 2

    def __init__(self) -> None:
        self.apart = 0.0

    def all_gather(self, value: Any) -> list[Any]:
        return [value, value + 1] if isinstance(value, int) else [value, (self.apart, "kernel")]

    def broadcast(self, values: Any) -> Any:
        return values


class Notes:
    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def note(self, level: str, title: str, text: str) -> None:
        self.found.append((level, text))


def weights() -> tuple[Weights, Chief, Notes]:
    chief, notes = Chief(), Notes()
    return Weights([keras.Variable([1.0, 2.0])], chief, notes), chief, notes  # type: ignore[arg-type]


def test_rounding_is_told_once_and_warned_of_only_where_sums_in_another_order_do_not_explain_it() -> None:
    checked, chief, notes = weights()
    for epoch, chief.apart in enumerate((2.5e-7, 1.2e-7, 5e-5, 2.5e-7, 6e-5)):
        checked.check(epoch)
    assert notes.found == [("info", "kernel differs by 2.5e-07"), ("warning", "kernel differs by 5.0e-05")]


def test_more_than_rounding_is_an_error() -> None:
    checked, chief, notes = weights()
    chief.apart = 2e-3
    with pytest.raises(RuntimeError, match=r"After epoch 3 the weights differ between the tasks.* kernel: 0.002"):
        checked.check(2)
    assert [level for level, _ in notes.found] == ["error"]
