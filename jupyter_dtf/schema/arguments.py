"""Validation of function arguments: numbers, strings, lists of strings, addresses, paths and durations."""

from __future__ import annotations

import ipaddress
import math
import numbers
import operator
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..errors import InvalidInput

_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.\-]{0,251}[A-Za-z0-9_])?\.?")
_DOTTED = re.compile(r"[0-9.]+")  # a valid or invalid IPv4 address


def plain(value: Any) -> Any:
    """Convert numbers of other libraries to Python's own types, including numbers inside dicts, lists and tuples.

    Any other value, such as a NumPy boolean, is returned unchanged.
    """
    if value is None or isinstance(value, (bool, str, bytes)) or type(value) in (int, float):
        return value
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    if isinstance(value, numbers.Integral) and not isinstance(value, int):
        return operator.index(value)
    if isinstance(value, numbers.Real) and not isinstance(value, int):
        return float(value)
    return value


def make_plain(struct: msgspec.Struct) -> None:
    """Convert numbers of other libraries to Python's own types in the fields of a struct that is being created."""
    for name in struct.__struct_fields__:
        value = getattr(struct, name)
        if (found := plain(value)) is not value:
            msgspec.structs.force_setattr(struct, name, found)


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer, of Python or another library, and not a boolean."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Return whether a value is a real number, of Python or another library, and not a boolean."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_integer(value: Any, field: str, least: int, most: int | None = None, *, note: str = "") -> int:
    """Validate an integer, of Python or another library, and return it as an ``int``. Raises InvalidInput.

    Args:
        value: The value.
        field: Its dotted path. The message names the last part.
        least: The smallest valid value.
        most: The largest valid value; None: no limit.
        note: What the message says after the range, such as ``, or None``.
    """
    if not is_integer(value) or value < least or (most is not None and value > most):
        valid = f">= {least}" if most is None else f"from {least} to {most}"
        name = field.rpartition(".")[2]
        raise InvalidInput(f"`{name}` must be an integer {valid}{note}, got {value!r:.100}", field=field)
    return int(value)


def check_texts(value: Any, field: str, example: str) -> list[str]:
    """Validate a list of strings that can be passed to the operating system, and return it. Raises InvalidInput."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise InvalidInput(f"`{field}` must be a list of strings, such as {example}, got {value!r:.200}", field=field)
    for item in value:
        if "\0" in item:
            raise InvalidInput(
                f"`{field}` must be a list of strings without NUL characters, got {item!r:.200}", field=field
            )
    return list(value)


def check_addresses(value: Any, field: str) -> list[str]:
    """Validate addresses or names of machines, a list or one string, and return them as a list. Raises InvalidInput."""
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, (list, tuple, set, frozenset)) or not all(map(_is_address, given)):
        raise InvalidInput(
            f"`{field}` must be a list of addresses of machines, such as ['192.0.2.7'], got {value!r:.200}", field=field
        )
    return list(given)


def _is_address(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        ipaddress.ip_address(value[1:-1] if value.startswith("[") and value.endswith("]") else value)
    except ValueError:
        return bool(_HOST_NAME.fullmatch(value)) and not _DOTTED.fullmatch(value)
    return True


def check_path(value: Any, field: str) -> Path:
    """Validate a path, and return it as a ``Path``. Raises InvalidInput."""
    if not isinstance(value, (str, os.PathLike)) or not isinstance(text := os.fspath(value), str) or not text:
        raise InvalidInput(f"`{field}` must be a path, got {value!r:.200}", field=field)
    if "\0" in text:
        raise InvalidInput(f"`{field}` must be a path without NUL characters, got {text!r:.200}", field=field)
    return Path(text)


def check_seconds(value: Any, field: str) -> float | None:
    """Validate a timeout in seconds, and return it. Raises InvalidInput.

    Returns None (no limit) for None and infinity, and 0 for a negative value.
    """
    if value is None:
        return None
    if not is_number(value) or math.isnan(value):
        raise InvalidInput(f"`{field}` must be a number of seconds, or None, got {value!r:.100}", field=field)
    return None if value == math.inf else max(0.0, float(value))


def check_text(value: Any, field: str, what: str) -> str:
    """Validate a nonempty string, and return it.

    Raises InvalidInput, whose message states that the value must be ``what``.
    """
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"`{field}` must be {what}, got {value!r:.200}", field=field)
    return value


def as_mapping(value: Any, field: str) -> dict[Any, Any]:
    """Convert a mapping to a dict. Raises InvalidInput for anything else."""
    if not isinstance(value, Mapping):
        raise InvalidInput(f"`{field}` must be a mapping, got {value!r:.100}", field=field)
    return dict(value)
