"""Optuna, which is an extra: loaded when a search begins."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from ...errors import Unavailable


def optuna() -> Any:
    """The package. Raises Unavailable, with how to get it, where it is missing."""
    try:
        import optuna as found
    except ImportError as error:
        raise Unavailable(f"A search needs Optuna: pip install 'jupyter_dtf[search]' ({error})") from None
    return found


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without Optuna's remark that what was asked for by its name is an experimental feature of Optuna's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna().exceptions.ExperimentalWarning)
        yield
