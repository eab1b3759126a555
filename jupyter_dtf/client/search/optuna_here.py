"""Optuna, an optional dependency that is loaded when a search starts."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from ...errors import Unavailable


def optuna() -> Any:
    """Return the ``optuna`` package. Raises Unavailable, with the command that installs it, if it is missing."""
    try:
        import optuna as found
    except ImportError as error:
        raise Unavailable(f"A search needs Optuna: pip install 'jupyter_dtf[search]' ({error})") from None
    return found


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress Optuna's warnings about experimental features that the user has requested by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna().exceptions.ExperimentalWarning)
        yield
