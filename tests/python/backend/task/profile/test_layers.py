"""Tests of steps that TensorFlow refuses."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import tensorflow as tf

from jupyter_dtf.backend.task.profile.layers import accepted


def refusing(times: int, message: str) -> tuple[list[int], Callable[[], str]]:
    asked: list[int] = []

    def step() -> str:
        asked.append(1)
        if len(asked) <= times:
            raise tf.errors.AbortedError(None, None, message)
        return "done"

    return asked, step


@pytest.mark.parametrize("times", [0, 1])
def test_a_step_that_is_taken_for_another_is_made_again(times: int) -> None:
    asked, step = refusing(times, "The same RunGraph (Worker) request was received twice. graph_handle")
    assert accepted(step) == "done"
    assert len(asked) == times + 1


@pytest.mark.parametrize(
    ("times", "message"), [(2, "The same RunGraph (Worker) request was received twice."), (1, "Step 12")]
)
def test_what_is_wrong_otherwise_is_told(times: int, message: str) -> None:
    asked, step = refusing(times, message)
    with pytest.raises(tf.errors.AbortedError, match=re.escape(message)):
        accepted(step)
    assert len(asked) == times
