"""Which parameters of a test `make test` takes, where there are more of them than it has time for."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def cut(values: Iterable[Any], keep: Collection[Any]) -> list[Any]:
    """The values as parameters of a test: all but those in ``keep`` are left to `make test-all`.

    A value that is a tuple stands for several arguments.
    """
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)), marks=[] if value in keep else [pytest.mark.extended]
        )
        for value in values
    ]
