"""Tests of what must exist for every strategy."""

from __future__ import annotations

from typing import get_args

import pytest

import jupyter_dtf as dtf
from jupyter_dtf.backend.task.fit.checks import Checks
from jupyter_dtf.backend.task.fit.strategies import IMPLEMENTATIONS
from jupyter_dtf.schema.strategy import Strategy


@pytest.mark.parametrize("kind", get_args(Strategy), ids=lambda kind: str(kind.name))
def test_a_strategy_has_a_room_a_name_for_people_and_says_whether_it_is_exact(kind: type[Strategy]) -> None:
    assert getattr(dtf, kind.__name__) is kind
    assert type(IMPLEMENTATIONS[kind].checks).is_exact is not Checks.is_exact
