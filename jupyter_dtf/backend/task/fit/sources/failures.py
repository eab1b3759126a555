"""Records errors that a source raises while TensorFlow reads it.

TensorFlow converts an exception raised in a dataset's Python code to an exception of another class, whose message
surrounds the original message with names of graph nodes. The code of a dataset therefore records the original exception
here, and ``KerasFit`` raises it.
"""

from __future__ import annotations

from typing import TypeVar

AnyError = TypeVar("AnyError", bound=Exception)

_noted: list[Exception] = []


def noted(error: Exception) -> Exception:
    """Record an error and return it. The ``fit`` run that fails because of the error raises it."""
    _noted.append(error)
    return error


def of_data(error: AnyError) -> AnyError:
    """Mark an error as caused by the data, for ``is_of_data`` in this or another process, and return the error.

    Used for results that are computed ahead of their use: such an error is recorded only when it is raised to
    TensorFlow.
    """
    error.__dict__["is_of_data"] = True
    return error


def is_of_data(error: BaseException) -> bool:
    """Return whether an error was marked by ``of_data``."""
    return error.__dict__.get("is_of_data") is True


def taken() -> Exception | None:
    """Return the first error recorded since the last call, or None if there is none."""
    first = _noted[0] if _noted else None
    _noted.clear()
    return first
