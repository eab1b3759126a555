"""Selects the parameters of a test that ``make test`` uses, if there are more than it has time for."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def cut(values: Iterable[Any], keep: Collection[Any]) -> list[Any]:
    """Return the values as parameters of a test. Those that are not in ``keep`` are used only by ``make test-all``.

    A value that is a tuple stands for several arguments.
    """
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)), marks=[] if value in keep else [pytest.mark.extended]
        )
        for value in values
    ]
