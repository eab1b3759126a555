"""Tests of what a task does with its program's return value."""

from __future__ import annotations

import pytest

from jupyter_dtf.backend.task.process import _failure, _pickled


def test_a_result_that_cannot_be_pickled_is_named() -> None:
    with pytest.raises(TypeError) as caught:
        _pickled(number for number in range(3))
    message = _failure(caught.value).message
    assert message.startswith("TypeError: The program's return value must be picklable, got generator: ")
