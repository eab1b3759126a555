"""The installed kinds of Dask cluster, and the validation of a request's options against the fields of its kind.

Kinds are found through the entry-point group ``jupyter_dtf.kinds``. A kind that cannot be used is still listed, with
the reason.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint
from typing import Any

from ... import entry_points
from ...errors import InvalidInput, NotFound, Unavailable
from ...schema.api import FieldInfo, KindInfo
from ...schema.cluster import USUAL_JOBS
from ...schema.cluster_request import DEFAULT_KIND, ClusterRequest, check_name
from .base import Kind

GROUP = "jupyter_dtf.kinds"


class _Unusable(Kind):
    """A placeholder for an entry point that cannot be loaded or does not provide a kind."""

    def __init__(self, name: str, why: str) -> None:
        self.kind = self.title = name
        self._why = why

    def missing(self) -> str:
        return self._why

    async def create(self, *_: Any) -> Any:
        raise Unavailable(self._why)

    def hosts(self, *_: Any) -> int:
        raise Unavailable(self._why)


def kinds() -> dict[str, Kind]:
    """Return all installed kinds, keyed by name. Never raises: an unusable kind's ``missing`` reports the problem."""
    return {name: _made(point) for name, point in entry_points.points(GROUP).items()}


def _made(point: EntryPoint) -> Kind:
    try:
        kind = point.load()()
        if not isinstance(kind, Kind):
            raise TypeError(f"a kind of cluster must be a {Kind.__module__}.{Kind.__name__}, got {kind!r:.100}")
        if kind.kind != point.name:
            raise ValueError(f"a kind must have the name of its entry point, {point.name!r}, got {kind.kind!r:.100}")
        check_name(f"{kind.kind}-1")  # the default name of its clusters
        return kind
    except Exception as error:  # third-party code may raise anything
        if entry_points.is_ours(point):
            return _Unusable(point.name, f"{point.value} cannot be loaded ({error}). {entry_points.reinstall()}")
        package = point.dist.name if point.dist is not None else "its package"
        return _Unusable(
            point.name, f"{package} provides this kind, which cannot be loaded: {type(error).__name__}: {error}"
        )


def describe_kinds() -> list[KindInfo]:
    """Return the kinds for a form: the default first, unavailable ones last."""
    infos = map(_described, kinds().values())
    return sorted(infos, key=lambda info: (info.kind != DEFAULT_KIND, not info.available, info.title.casefold()))


def _described(kind: Kind) -> KindInfo:
    try:
        missing, fields = kind.missing(), kind.fields()
    except Exception as error:  # third-party code may raise anything
        missing, fields = f"{type(kind).__name__} has failed: {type(error).__name__}: {error}", []
    return KindInfo(kind=kind.kind, title=kind.title, available=not missing, missing=missing, fields=fields)


def find_kind(name: str) -> Kind:
    """Return the kind with this name. Raises NotFound if it is not installed, Unavailable if it cannot be used here."""
    found = kinds()
    if name not in found:  # it may have just been installed
        entry_points.points.cache_clear()
        found = kinds()
    if not found:
        raise Unavailable(f"No kind of cluster is installed. {entry_points.reinstall()}")
    if name not in found:
        raise NotFound(f"The kind of a cluster must be one of {', '.join(found)}, got {name!r}")
    if missing := _described(found[name]).missing:
        raise Unavailable(f"A cluster of kind {name} cannot start here: {missing}")
    return found[name]


def counts_hosts(fields: list[FieldInfo]) -> str:
    """Return the name of the option for the number of hosts, or an empty string if there is none."""
    return next((field.name for field in fields if field.counts_hosts), "")


def options_of(kind: Kind, request: ClusterRequest) -> dict[str, Any]:
    """Return a request's options, validated and completed by ``check_options``. Raises InvalidInput.

    If the request has a design with hosts, their number becomes the value of the option that counts hosts.
    """
    drawn, option = len(request.hosts), counts_hosts(kind.fields())
    if not (drawn and option):
        return check_options(kind, request.options)
    if (wanted := request.options.get(option, drawn)) != drawn:
        raise InvalidInput(
            f"`{option}` must be the number of hosts in the design, {drawn}, got {wanted!r}", field=f"options.{option}"
        )
    return check_options(kind, {**request.options, option: drawn})


def check_options(kind: Kind, options: Mapping[str, Any]) -> dict[str, Any]:
    """Validate the given options, and return all options of the kind, with defaults filled in.

    Options that only ``check_more`` can validate are included unchanged.

    Raises:
        InvalidInput: If an option is not valid. Its ``field`` names the option (``options.hosts``).
    """
    fields = {field.name: field for field in kind.fields()}
    more = {name: value for name, value in options.items() if name not in fields}
    if more and not kind.has_more_fields:
        raise _unknown(kind, fields, next(iter(more)))
    return {name: _check(field, options.get(name, field.default)) for name, field in fields.items()} | more


def check_more(kind: Kind, options: Mapping[str, Any], more_fields: list[FieldInfo]) -> dict[str, Any]:
    """Validate and return the options from ``check_options`` that belong to ``more_fields``.

    Strings are converted to the field's type, which was not yet known when they were given on a command line.

    Raises:
        InvalidInput: If an option is unknown or not valid.
    """
    fields = {field.name: field for field in more_fields}
    known = [field.name for field in kind.fields()]
    given = {name: value for name, value in options.items() if name not in known}
    for name in given:
        if name not in fields:
            raise _unknown(kind, [*known, *fields], name)
    return {name: _check(fields[name], _read(fields[name], value)) for name, value in given.items()}


def _unknown(kind: Kind, names: Iterable[str], received: str) -> InvalidInput:
    known = list(names)
    return InvalidInput(
        f"The options of kind {kind.kind} must be among {', '.join(known) or 'none'}, got {received!r}"
        + _meant(received, known),
        field=f"options.{received}",
    )


_READERS: dict[str, Callable[[str], Any]] = {
    "integer": int,
    "bytes": int,
    "number": float,
    "boolean": {"true": True, "false": False}.__getitem__,
}


def _read(field: FieldInfo, value: Any) -> Any:
    if isinstance(value, str) and field.type in _READERS:
        with contextlib.suppress(ValueError, KeyError):
            return _READERS[field.type](value)
    return value


def _meant(name: str, known: list[str]) -> str:
    """Return a suggestion for an unknown option, or an empty string if there is none."""
    for job in USUAL_JOBS:
        if name.removeprefix("n_").removeprefix("num_") in (job, f"{job}s"):
            return f'. The number of tasks of a job is set by jobs={{"{job}": 2}}'
    near = difflib.get_close_matches(name, known, n=1)
    return f". Did you mean {near[0]!r}?" if near else ""


TYPES: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "bytes": (int,),
    "number": (int, float),
    "string": (str,),
    "choice": (str,),
    "boolean": (bool,),
    "list": (list, tuple, str),
}
"""The Python types that a value may have, keyed by the type of the option."""

_TYPE_NAMES = {
    "integer": "an integer",
    "bytes": "an integer (bytes)",
    "number": "a number",
    "string": "a string",
    "choice": "a string",
    "boolean": "True or False",
    "list": "a list",
}


def _check(field: FieldInfo, value: Any) -> Any:
    where = f"options.{field.name}"
    wrong_kind = not isinstance(value, TYPES[field.type]) or (isinstance(value, bool) and field.type != "boolean")
    if wrong_kind:
        raise InvalidInput(f"{field.title} must be {_TYPE_NAMES[field.type]}, got {value!r}", field=where)
    if field.minimum is not None and value < field.minimum:
        raise InvalidInput(f"{field.title} must be at least {field.minimum:g}, got {value!r}", field=where)
    if field.maximum is not None and value > field.maximum:
        raise InvalidInput(f"{field.title} must be at most {field.maximum:g}, got {value!r}", field=where)
    if field.type == "list":
        return _texts(field, value)
    if field.choices and value not in field.choices:
        raise InvalidInput(f"{field.title} must be one of {', '.join(field.choices)}, got {value!r}", field=where)
    return value


def _texts(field: FieldInfo, value: Any) -> list[str]:
    """Return the value of a list option as strings: it may be one comma-separated string, or contain integers."""
    given: list[Any] = value.replace("\n", ",").split(",") if isinstance(value, str) else list(value)
    texts = [str(each) if isinstance(each, int) and not isinstance(each, bool) else each for each in given]
    for text in texts:
        if not isinstance(text, str):
            raise InvalidInput(
                f"{field.title} must be a list of strings, got {text!r:.200} in it", field=f"options.{field.name}"
            )
    return [text.strip() for text in texts if text.strip()]
