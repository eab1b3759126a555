"""Designs for property-based tests, with all values that the types of the structs permit."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

from jupyter_dtf.schema.design import VERSION, Design
from jupyter_dtf.schema.placement import Calibration, Device, Link
from jupyter_dtf.schema.text import MAX_WHOLE, InvalidText

whole = st.integers(-MAX_WHOLE, MAX_WHOLE)
number = st.floats(allow_nan=False, allow_infinity=False)
# Names that sometimes coincide, because otherwise references would never be valid.
name = st.sampled_from(["a", "b", "worker", "ps", "a/b", "a.b", "3", "/job:worker/task:1/device:CPU:0"]) | st.text()
free = st.recursive(st.none() | st.booleans() | whole | number | name, lambda inside: st.dictionaries(name, inside))


def _of(hint: Any) -> st.SearchStrategy[Any]:
    if get_origin(hint) is list:
        return st.lists(_of(get_args(hint)[0]), max_size=3)
    if get_origin(hint) is dict:
        return st.dictionaries(name, _of(get_args(hint)[1]), max_size=3)
    if get_origin(hint) in (Union, types.UnionType):
        return st.one_of(*map(_of, get_args(hint)))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _struct(hint)
    return {int: whole, float: number, bool: st.booleans(), str: name, type(None): st.none(), Any: free}[hint]


def _struct(struct: type[msgspec.Struct], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    special = {**_CHECKED.get(struct, {}), **fields}
    hints = get_type_hints(struct)
    return st.builds(struct, **{key: special[key] if key in special else _of(hints[key]) for key in hints})


_positive = st.floats(1e-9, 1e21)
_CHECKED: dict[type[msgspec.Struct], dict[str, st.SearchStrategy[Any]]] = {
    Device: {"flops_per_s": _positive},
    Link: {"bytes_per_s": _positive, "latency_s": _positive},
    Calibration: {
        "devices": st.deferred(lambda: st.lists(_struct(Device), min_size=1, max_size=2)),
        "batch_size": st.integers(1, MAX_WHOLE),
        "layer_seconds": st.dictionaries(name, st.lists(_positive, min_size=3, max_size=3), max_size=3),
        "overhead_s": _positive,
    },
}
"""Strategies for values that the structs validate themselves, so that no invalid ones are generated."""

designs: st.SearchStrategy[Design] = _struct(Design, version=st.just(VERSION))


def attempt(read: Callable[[str], Any], text: str) -> tuple[Any, InvalidText | None]:
    """Return the result of reading the text, or the reason why it is refused."""
    try:
        return read(text), None
    except InvalidText as error:
        return None, error


def is_in(text: str, error: InvalidText) -> bool:
    """Return whether the position of an error exists in the text."""
    lines = text.split("\n")
    return 1 <= error.line <= len(lines) and 1 <= error.column <= len(lines[error.line - 1]) + 1
