"""The base struct, and decoding with errors that name the field, the rule and the value."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from ..errors import InvalidInput

T = TypeVar("T")


class Struct(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=False):
    """A value that crosses a boundary. Unknown keys are refused; fields are given by name."""


_PATH = re.compile(r"^(?P<message>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)


def _explain(error: msgspec.MsgspecError, what: Any) -> InvalidInput:
    match = _PATH.match(str(error))
    assert match is not None
    path = (match["path"] or "").removeprefix("$").removeprefix(".")
    received = what
    for key in re.findall(r"[^.\[\]]+", path):
        if isinstance(received, dict) and key in received:
            received = received[key]
        elif isinstance(received, list) and key.isdigit() and int(key) < len(received):
            received = received[int(key)]
        else:
            break
    where = f"{path}: " if path else ""
    return InvalidInput(f"{where}{match['message']}. Received: {received!r:.200}", field=path)


def decode_json(data: bytes | str, type_: type[T]) -> T:
    """Decode JSON text into a struct. Raises InvalidInput with the field, the rule and the value received."""
    try:
        raw = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"The body must be JSON: {error}") from None
    return convert(raw, type_)


def convert(raw: Any, type_: type[T]) -> T:
    """Convert plain dicts and lists into a struct. Raises InvalidInput as ``decode_json`` does."""
    try:
        return msgspec.convert(raw, type_)
    except InvalidInput:
        raise
    except msgspec.ValidationError as error:
        cause = error.__cause__
        if isinstance(cause, InvalidInput):  # raised in a __post_init__; msgspec wraps it
            path = _explain(error, raw).field
            raise InvalidInput(str(cause), field=".".join(p for p in (path, cause.field) if p)) from None
        raise _explain(error, raw) from None


def to_plain(value: Any) -> Any:
    """Dicts, lists, strings and numbers for a struct, as JSON would show it."""
    return msgspec.to_builtins(value)


def encode_json(value: Any) -> bytes:
    """JSON bytes of a struct. NaN and infinities become null."""
    return msgspec.json.encode(value)
