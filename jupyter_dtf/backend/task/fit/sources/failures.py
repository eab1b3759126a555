"""What has gone wrong in a source while TensorFlow read it.

An exception in a dataset's Python code comes out of TensorFlow as one of its own, of another class and wrapped in the
names of graph nodes. Who raises there notes the original here, and ``KerasFit`` raises that.
"""

from __future__ import annotations

_noted: list[Exception] = []


def noted(error: Exception) -> Exception:
    """The error, which the training that fails because of it is to raise."""
    _noted.append(error)
    return error


def taken() -> Exception | None:
    """The first that was noted since this was last asked."""
    first = _noted[0] if _noted else None
    _noted.clear()
    return first
