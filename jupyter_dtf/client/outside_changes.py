"""Finds the variables outside of a callback that its code changes. Pure.

Callbacks run in the tasks, with copies of the variables that they use. Only their own attributes come back.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator
from typing import Any

_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"})
_METHODS = frozenset({"LOAD_METHOD", "LOAD_ATTR"})
_CHANGE = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault",
     "sort", "update"}
)  # fmt: skip
_CONTAINERS = (list, dict, set)


def changed_outside(callback: Any) -> list[str]:
    """Return the names of the lists, dicts, sets and rebound variables outside of a callback that its code changes.

    Recognizes direct changes: calls to methods such as ``append``, assignments of items, and ``global`` or ``nonlocal``
    variables that are assigned.
    """
    found: dict[str, None] = {}
    for function in _functions(callback):
        found |= dict.fromkeys(_changed_by(function))
    return list(found)


def _functions(callback: Any) -> Iterator[types.FunctionType]:
    """Yield the functions of a callback that are neither Keras's nor this package's."""
    held = list(vars(callback).values())
    for base in type(callback).__mro__:
        held += list(vars(base).values())
    for value in held:
        function = getattr(value, "__func__", value)
        module = str(getattr(function, "__module__", ""))
        if isinstance(function, types.FunctionType) and not module.startswith(("keras.", "jupyter_dtf.")):
            yield function


def _changed_by(function: types.FunctionType) -> Iterator[str]:
    code = function.__code__
    held = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))

    def is_container(name: str) -> bool:
        if name not in held:
            return isinstance(function.__globals__.get(name), _CONTAINERS)
        try:
            return isinstance(held[name].cell_contents, _CONTAINERS)
        except ValueError:  # not assigned yet
            return False

    steps = list(dis.get_instructions(code))
    for number, step in enumerate(steps):
        after = [each.opname for each in steps[number + 1 : number + 3]]
        name = str(step.argval)
        if step.opname == "STORE_GLOBAL" or (step.opname == "STORE_DEREF" and name in held):
            yield name
        elif step.opname in _LOADS and is_container(name):
            calls = bool(after) and after[0] in _METHODS and steps[number + 1].argval in _CHANGE
            if calls or after[1:] == ["STORE_SUBSCR"]:
                yield name
