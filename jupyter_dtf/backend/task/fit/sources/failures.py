"""What has gone wrong in a source while TensorFlow read it.

An exception in a dataset's Python code comes out of TensorFlow as one of its own, of another class and wrapped in the
names of graph nodes. Who raises there notes the original here, and ``KerasFit`` raises that.
"""

from __future__ import annotations

from typing import TypeVar

AnyError = TypeVar("AnyError", bound=Exception)

_noted: list[Exception] = []


def noted(error: Exception) -> Exception:
    """The error, which the training that fails because of it is to raise."""
    _noted.append(error)
    return error


def of_data(error: AnyError) -> AnyError:
    """The error, marked as one of the data, which ``is_of_data`` knows, in another process, too.

    For what is computed ahead of its use: it is noted where it is raised to TensorFlow, if it comes to that.
    """
    error.__dict__["is_of_data"] = True
    return error


def is_of_data(error: BaseException) -> bool:
    """Whether it was marked so."""
    return error.__dict__.get("is_of_data") is True


def taken() -> Exception | None:
    """The first that was noted since this was last asked."""
    first = _noted[0] if _noted else None
    _noted.clear()
    return first
