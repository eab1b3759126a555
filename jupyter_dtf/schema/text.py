"""JSON for people and version control: written in one canonical form, and parsed with the position of errors.

The browser (``src/model/designtext.ts``) writes exactly the same bytes, so that an edit there changes no other line:

* two spaces for each level; each member of an object and each element of a list is on its own line;
* an element of a list, with everything in it, is on one line, and so is a list of plain values;
* members keep their order, numbers are written as ECMAScript writes them (``Number::toString``), strings with the
  escapes of ``JSON.stringify``, and the text ends with a newline.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, NoReturn

from ..errors import InvalidInput
from .base import MAX_DEPTH
from .printable import is_whole

MAX_WHOLE = 2**53
"""The largest absolute value up to which a browser represents all integers exactly."""

_SPACE = re.compile(r"[ \t\n\r]*")


class InvalidText(InvalidInput):
    """A string that cannot be parsed.

    Attributes:
        line: The line of the error, counted from 1.
        column: The column of the error, counted from 1.
    """

    def __init__(self, message: str, *, field: str = "", line: int = 1, column: int = 1) -> None:
        super().__init__(message, field=field)
        self.line = line
        self.column = column


# -- writing -------------------------------------------------------------------------------------------------------


def write(value: Any) -> str:
    """Write dicts, lists, strings and numbers as JSON text. Raises InvalidInput for values that cannot be read back."""
    text = _lines(value, "") + "\n"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"Strings must not contain lone surrogates, got {text[error.start]!r}") from None
    return text


def _lines(value: Any, indent: str) -> str:
    inner = f"{indent}  "
    if isinstance(value, dict) and value:
        members = [f"{inner}{encode_basestring(key)}: {_lines(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(members) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        return "[\n" + ",\n".join(f"{inner}{_line(item)}" for item in value) + f"\n{indent}]"
    return _line(value)


def _line(value: Any) -> str:
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{encode_basestring(key)}: {_line(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_line, value)) + "]"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return as_in_javascript(value)


def as_in_javascript(value: float) -> str:
    """Format a number as JavaScript writes it. Raises InvalidInput for a number that JavaScript cannot represent."""
    if isinstance(value, int):
        if abs(value) <= MAX_WHOLE:
            return str(value)
        if abs(value) >= 1e308 or int(float(value)) != value:
            raise InvalidInput(f"Integers beyond {MAX_WHOLE} must be representable as a float, got {value}")
    if not math.isfinite(value):
        raise InvalidInput(f"Numbers must be finite, got {value}")
    if value == 0:
        return "0"
    sign, digits_, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    digits = "".join(map(str, digits_))
    point = len(digits) + int(exponent)
    if len(digits) <= point <= 21:
        shown = digits.ljust(point, "0")
    elif 0 < point <= 21:
        shown = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        shown = f"0.{'0' * -point}{digits}"
    else:
        shown = f"{digits[0]}{'.' * (len(digits) > 1)}{digits[1:]}e{point - 1:+d}"
    return f"{'-' * sign}{shown}"


# -- reading -------------------------------------------------------------------------------------------------------


def read(text: str) -> Any:
    """Parse JSON text into dicts, lists, strings and numbers. Raises InvalidText.

    Stricter than JSON where parsing would lose information: keys must be unique, numbers finite, and there must be no
    lone surrogates. Integers beyond ``MAX_WHOLE`` become floats, as in a browser.
    """
    repeated: list[tuple[dict[str, Any], str]] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            repeated.append((found, next(key for key in keys if keys.count(key) > 1)))
        return found

    try:
        value = json.loads(text, object_pairs_hook=members, parse_int=_whole)
    except json.JSONDecodeError as error:
        raise InvalidText(f"A design must be JSON: {error.msg}", line=error.lineno, column=error.colno) from None
    except RecursionError:
        raise InvalidText(f"JSON must be nested at most {MAX_DEPTH} levels deep") from None
    _check(text, value, [], repeated)
    return value


def _whole(digits: str) -> int | float:
    number = float(digits)  # accepts any number of digits, unlike int()
    return int(digits) if abs(number) <= MAX_WHOLE else number


def _check(text: str, value: Any, steps: list[str | int], repeated: list[tuple[dict[str, Any], str]]) -> None:
    """Raise InvalidText for values that cannot be represented."""

    def refuse(rule: str, *, at: Sequence[str | int] = ()) -> NoReturn:
        where = [*steps, *at]
        line, column = locate(text, where)
        raise InvalidText(rule, field=field_of(where), line=line, column=column)

    if isinstance(value, str):
        if not (value.isascii() or is_whole(value)):
            refuse(f"Strings must not contain lone surrogates, got {value!r:.100}")
    elif isinstance(value, float):
        if not math.isfinite(value):
            refuse(f"Numbers must be finite, got {value}")
    elif isinstance(value, (dict, list)):
        if len(steps) == MAX_DEPTH:
            refuse(f"JSON must be nested at most {MAX_DEPTH} levels deep")
        for found, key in repeated:
            if found is value:
                refuse(f"Keys must be unique, got {key!r:.100} twice", at=[key])
        for step, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(step, str) and not (step.isascii() or is_whole(step)):
                refuse(f"Strings must not contain lone surrogates, got {step!r:.100}")
            if not isinstance(item, (int, type(None))):
                _check(text, item, [*steps, step], repeated)


def field_of(steps: Sequence[str | int]) -> str:
    """Return the path of a value as it appears in errors, such as ``cluster.tasks[3].host``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def locate(text: str, steps: Sequence[str | int]) -> tuple[int, int]:
    """Return the line and column, from 1, of a value in JSON text, or of the innermost existing value around it."""
    at = _skip(text, 0)
    for step in steps:
        inside = _member(text, at, step)
        if inside is None:
            break
        at = inside
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _member(text: str, at: int, step: str | int) -> int | None:
    """Return the offset of one value in the object or list at the offset ``at``; None if it is missing.

    ``step`` is the key of the value (if there are several, the last one is found) or its index.
    """
    decoder = json.JSONDecoder(parse_int=float)  # int() rejects more than 4,300 digits
    opening, found, number = text[at], None, 0
    if opening not in "{[":
        return None
    at = _skip(text, at + 1)
    while text[at] not in "}]":
        key: str | int = number
        if opening == "{":
            key, end = decoder.raw_decode(text, at)
            at = _skip(text, _skip(text, end) + 1)
        if key == step:
            found = at
        _, end = decoder.raw_decode(text, at)
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
        number += 1
    return found


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()
