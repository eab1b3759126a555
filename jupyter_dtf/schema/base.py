"""Base classes of structs, and decoding with errors that name the field, the rule and the value.

Input from users is read strictly: an unknown key is an error. Data from another process of jupyter_dtf may come from a
newer version, so unknown keys are ignored. The base class of a struct determines which of the two applies.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from .._version import __version__
from ..errors import InvalidInput, Unavailable
from .printable import all_printable

T = TypeVar("T")

MAX_DEPTH = 32
MAX_INTEGER = 2**63
"""Integers that can be encoded are at least ``-MAX_INTEGER`` and less than ``MAX_INTEGER``."""


class Struct(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=False):
    """Base of structs written by users or their programs. Unknown keys are rejected; fields are keyword-only."""


class PeerStruct(msgspec.Struct, kw_only=True, omit_defaults=False):
    """Base of structs that processes of jupyter_dtf exchange or write to files. Unknown keys are ignored."""


_SECTIONS = re.compile(r"\n\n(?:Args|Attributes|Returns|Raises|Example):\n")


def description_of(doc: str) -> str:
    """Return a docstring dedented and without its sections (``Args:`` and so on), which only concern Python."""
    return _SECTIONS.split(inspect.cleandoc(doc), maxsplit=1)[0]


_PATH = re.compile(r"^(?P<message>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)
_STEP = re.compile(r"\[\.\.\.\]|[^.\[\]]+")  # ``[...]``: a key of a dict, which msgspec does not name
_GOT = re.compile(r"got `(\w+)`$")
_UNKNOWN = re.compile(r"unknown field `(.+)`$", re.DOTALL)
_JSON_NAMES = {str: "str", int: "int", float: "float", bool: "bool", list: "array", dict: "object", type(None): "null"}


def _explain(error: msgspec.MsgspecError, what: Any) -> InvalidInput:
    match = _PATH.match(str(error))
    assert match is not None
    got = _GOT.search(match["message"])
    path: list[str] = []
    received = what
    for step in _STEP.findall((match["path"] or "").removeprefix("$")):
        key = step
        if step == "[...]" and isinstance(received, dict):
            key = next((k for k, v in received.items() if got and _JSON_NAMES.get(type(v)) == got[1]), step)
        path.append(key)
        if isinstance(received, dict) and key in received:
            received = received[key]
        elif isinstance(received, list) and key.isdigit() and int(key) < len(received):
            received = received[int(key)]
    where = f"{'.'.join(path)}: " if path else ""
    if unknown := _UNKNOWN.search(match["message"]):
        path.append(unknown[1])
    value = f"{': ' if got else ', got '}{received!r:.200}"
    return InvalidInput(f"{where}{match['message']}{value}", field=".".join(path))


def decode_json(data: bytes | str, type_: type[T]) -> T:
    """Decode JSON text into a struct. Raises InvalidInput with the field, the rule and the value received."""
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"The body must be JSON ({error}), got {data!r:.200}") from None
    except RecursionError:
        raise _too_deep(data) from None
    except ValueError:  # an integer with more digits than Python parses
        raise _too_large(data) from None
    _check_values(raw, MAX_DEPTH, data)
    return convert(raw, type_)


def _check_values(raw: Any, left: int, data: bytes | str) -> None:
    if isinstance(raw, int) and not -MAX_INTEGER <= raw < MAX_INTEGER:
        raise _too_large(data)
    children: Iterable[Any] = raw.values() if isinstance(raw, dict) else raw if isinstance(raw, list) else ()
    for child in children:
        if left == 0:
            raise _too_deep(data)
        _check_values(child, left - 1, data)


def _too_large(data: bytes | str) -> InvalidInput:
    return InvalidInput(f"Integers must be from -2**63 to 2**63 - 1, got {data!r:.200}")


def _too_deep(data: bytes | str) -> InvalidInput:
    return InvalidInput(f"JSON must be nested at most {MAX_DEPTH} levels deep, got {data!r:.200}")


def convert(raw: Any, type_: type[T]) -> T:
    """Convert plain dicts and lists to a struct. Raises InvalidInput, as ``decode_json`` does."""
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
    """Convert a struct to dicts, lists, strings and numbers, as in JSON."""
    return msgspec.to_builtins(value)


def without_defaults(value: Any) -> Any:
    """Convert a struct to plain data, omitting fields that have their default value, at every level.

    Requests to a peer that rejects unknown keys are sent and stored in this form, so that an older version rejects a
    request only if it uses a new option. Both sides must have the same defaults, so changing a default changes the
    meaning of stored and sent data.
    """
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        plain = {} if config.tag_field is None else {config.tag_field: config.tag}
        for field in msgspec.structs.fields(type(value)):
            item = getattr(value, field.name)
            if not _is_default(field, item):
                plain[field.encode_name] = without_defaults(item)
        return plain
    if isinstance(value, dict):
        return {key: without_defaults(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_defaults(item) for item in value]
    return value


def _is_default(field: msgspec.structs.FieldInfo, value: Any) -> bool:
    if field.required:
        return False
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return type(value) is type(default) and bool(value == default)  # False is not 0


def convert_request(raw: Any, type_: type[T], reader: str) -> T:
    """Convert a request sent to ``reader`` by another process of jupyter_dtf, possibly of another version.

    Raises Unavailable, which names the field, if this version cannot read the request, and InvalidInput if the request
    violates a rule.
    """
    try:
        return msgspec.convert(raw, type_)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, InvalidInput):
            return convert(raw, type_)  # raises the error with its field
        found = _PATH.match(str(error))
        assert found is not None
        what = f"{found['message']}, for `{field}`" if (field := _explain(error, raw).field) else found["message"]
        raise Unavailable(
            f"{reader} (jupyter_dtf {__version__}) cannot read a request, which seems to be from another version: "
            f"{what}. Use one version on both sides (close the cluster and start it again), or omit that option"
        ) from None


def encode_json(value: Any) -> bytes:
    """Encode a struct as JSON. NaN and infinities become null; lone surrogates are escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(all_printable(msgspec.to_builtins(value)))


def with_unknown(raw: Any, value: Any) -> Any:
    """Convert ``value`` to plain data, and add the keys of ``raw`` that the structs in ``value`` do not define.

    ``raw`` is the data from which ``value`` was decoded. This allows data written by a newer version to be changed
    without losing keys that this version does not know.
    """
    if isinstance(value, msgspec.Struct):
        old = raw if isinstance(raw, dict) else {}
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        fields = {encoded: getattr(value, name) for encoded, name in names}
        rest = {key: item for key, item in old.items() if key not in fields}
        return {key: with_unknown(old.get(key), item) for key, item in fields.items()} | rest
    if isinstance(value, list):
        before = raw if isinstance(raw, list) else []
        return [with_unknown(before[i] if i < len(before) else None, item) for i, item in enumerate(value)]
    return msgspec.to_builtins(value, builtin_types=(bytes,))
