"""Tests of how the predictions and evaluations of several tasks are combined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jupyter_dtf.backend.task.answers.job import Evaluated, Part
from jupyter_dtf.client.answers import evaluation, predictions
from jupyter_dtf.errors import InvalidInput


def rows(*numbers: int, width: int = 2) -> Any:
    return np.repeat(np.array(numbers, np.int16)[:, None], width, axis=1)


def test_runs_of_neighbours_follow_each_other_by_rank() -> None:
    structure = {"a": 0, "b": (1,)}
    parts = [Part(structure, [[rows(0, 1), rows(2)], [rows(5)]]), Part(), Part(structure, [[rows(3)], [rows(6, 7)]])]
    found = predictions(parts)
    assert list(found) == ["a", "b"] and isinstance(found["b"], tuple) and found["a"].dtype == np.int16
    np.testing.assert_array_equal(found["a"], rows(0, 1, 2, 3))
    np.testing.assert_array_equal(found["b"][0], rows(5, 6, 7))


def test_batches_taken_in_turn_are_put_in_the_order_of_the_data() -> None:
    lists = [[rows(0, 1), rows(6)], [rows(2, 3)], [rows(4, 5)]]
    np.testing.assert_array_equal(predictions([Part(0, [each], in_turn=True) for each in lists]), rows(*range(7)))


def test_what_has_no_rows_and_what_differs_in_width_is_as_in_keras() -> None:
    numbers = [np.array(value, np.float32) for value in range(3)]
    np.testing.assert_array_equal(predictions([Part(0, [numbers])]), [0, 1, 2])
    assert predictions([Part(0, [numbers[1:2]])]).shape == ()
    ragged = predictions([Part(0, [[rows(0, 1)]]), Part(0, [[rows(2, width=3)]])])
    assert ragged.to_list() == [[0, 0], [1, 1], [2, 2, 2]]


def test_no_batch_at_all_is_said() -> None:
    with pytest.raises(InvalidInput, match="`x` must hold at least one batch, got none"):
        predictions([Part(), Part()])


def test_an_evaluation_is_a_list_or_a_dict() -> None:
    assert evaluation(Evaluated({"loss": 1.0, "accuracy": 0.5}, [1.0, 0.5])) == [1.0, 0.5]
    assert evaluation(Evaluated({"loss": 1.0}, 1.0, return_dict=True)) == {"loss": 1.0}
