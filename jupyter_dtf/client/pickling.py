"""Pickles the caller's objects for sending, with a helpful error for those that cannot be pickled."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import cloudpickle
import numpy as np

from ..errors import InvalidInput

_DEEPEST = 4


def pickled(value: Any, what: str, field: str) -> np.ndarray[Any, Any]:
    """Pickle a value with cloudpickle to an array of bytes. Raises InvalidInput, which names the unpicklable part."""
    try:
        data = cloudpickle.dumps(value, protocol=5)
    except Exception as error:
        path, found, why = _culprit(value, error)
        where = f"its attribute {path}, {_kind(found)}" if path else _kind(found)
        raise InvalidInput(
            f"{what} must be picklable, because it is sent to the tasks, got {where}: {why}. Create unpicklable "
            "objects (a file, a lock) when __getitem__ first needs them, or exclude them in __getstate__",
            field=field,
        ) from error
    return np.frombuffer(data, np.uint8)


def refusal(error: Exception, **sent: Any) -> InvalidInput:
    """Return the error for a program that cannot be pickled.

    The error names the unpicklable object by its path, which starts with a name in ``sent``.
    """
    path, found, why = _culprit(SimpleNamespace(**sent), error)
    return InvalidInput(
        "A program and its arguments must be picklable, because they are sent to the tasks, got "
        f"{path or 'a program'}, {_kind(found)}: {why}. Create unpicklable objects, such as an open file or a lock, "
        "inside the program"
    )


def _culprit(value: Any, error: Exception, path: str = "", depth: int = 0) -> tuple[str, Any, Exception]:
    """Return the path of the innermost attribute that cannot be pickled, its value, and the reason."""
    if depth < _DEEPEST:
        for name, part in _parts(value):
            try:
                cloudpickle.dumps(part, protocol=5)
            except Exception as inner:
                return _culprit(part, inner, f"{path}{name}" if path else name.lstrip("."), depth + 1)
    return path, value, error


def _parts(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f"[{key!r:.40}]", part) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return [(f"[{index}]", part) for index, part in enumerate(value)]
    parts = [(f".{name}", part) for name, part in getattr(value, "__dict__", {}).items()]
    if inspect.isfunction(value):
        own = inspect.getclosurevars(value)
        parts += [(f".{name}", part) for name, part in {**own.globals, **own.nonlocals}.items()]
    elif inspect.ismethod(value):
        parts.append((".__self__", value.__self__))
    return parts


def _kind(value: Any) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"
