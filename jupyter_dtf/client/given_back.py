"""Gives callbacks the attributes of their copies in the task. Objects that the caller may hold as well are filled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def give_attributes(callback: Any, attributes: Mapping[str, Any]) -> None:
    """Set the attributes of a callback.

    A list, dict, set, array, variable, metric or model that the callback already has keeps its identity and gets the
    new contents, if they fit, because the caller may have passed it and read it.
    """
    held = vars(callback)
    for name, value in attributes.items():
        held[name] = filled(held.get(name), value)


def filled(old: Any, new: Any) -> Any:
    """Return ``old`` with the contents of ``new`` if that is possible, otherwise ``new``."""
    if old is new:
        return old
    if type(old) is list and type(new) is list:
        old[:] = [filled(old[place], value) if place < len(old) else value for place, value in enumerate(new)]
        return old
    if type(old) is dict and type(new) is dict:
        contents = {key: filled(old.get(key), value) for key, value in new.items()}
        old.clear()
        old.update(contents)
        return old
    if type(old) is set and type(new) is set:
        old.clear()
        old.update(new)
        return old
    if isinstance(old, np.ndarray) and isinstance(new, np.ndarray):
        if old.shape == new.shape and old.dtype == new.dtype and old.flags.writeable:
            old[...] = new
            return old
        return new
    ours, theirs = _variables(old), _variables(new)
    if ours and [_kind(variable) for variable in ours] == [_kind(variable) for variable in theirs]:
        for mine, other in zip(ours, theirs, strict=True):
            mine.assign(other.numpy())
        return old
    return new


def _variables(value: Any) -> list[Any]:
    """Return the variables of a model, layer or metric, or a variable itself; empty for anything else."""
    if hasattr(value, "assign") and hasattr(value, "numpy"):
        return [value]
    variables = getattr(value, "variables", None)
    is_of_keras = hasattr(value, "get_config") and isinstance(variables, list)
    return list(variables) if is_of_keras and variables else []


def _kind(variable: Any) -> tuple[tuple[int, ...], str]:
    return tuple(variable.shape), str(getattr(variable.dtype, "name", variable.dtype))
