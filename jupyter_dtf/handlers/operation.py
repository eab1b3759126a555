"""Declares a method of a route: a decorator provides its description, and annotations provide its types.

A route consists of the method of a handler, and its path in ``routes.py``::

    class ClusterHandler(Handler):
        @operation("Change the numbers of tasks for future runs", errors=(404, 503))
        async def patch(self, name: str, *, body: ClusterPatch) -> ClusterInfo:
            return await (await self.services.fleet()).scale(name, body.jobs)

Positional parameters are the variable parts of the path, as strings. ``body`` is decoded according to its type: a
struct (with its own ``decode`` if it has one), or ``bytes`` for the raw body. Other keyword-only parameters are from
the query, and have their descriptions in ``Annotated``. The return value is checked and sent as JSON; ``None`` means no
body.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

from tornado import web

from ..errors import InvalidInput
from ..schema.base import decode_json

if TYPE_CHECKING:
    from .base import Handler

Method = TypeVar("Method", bound=Callable[..., Any])
Answering = Callable[..., Awaitable[None]]
"""A handler method in the form in which tornado calls it."""

CSV = "text/csv"
HTML = "text/html"
TEXT = "text/plain"

_AT_ONCE_BYTES = 1 << 16
"""Bodies longer than this, in bytes, are decoded in a thread."""
_OPERATION = "__dtf_operation__"


@dataclass(frozen=True)
class Query:
    """A query parameter."""

    name: str
    type: Any
    """int, float or str."""
    help: str
    default: Any

    def read(self, text: str | None) -> Any:
        """Parse the value that was sent, or return ``default`` if there was none. Raises InvalidInput."""
        if text is None or (text == "" and self.default is None):
            return self.default
        try:
            value = self.type(text)
        except ValueError:
            value = math.nan
        if isinstance(value, float) and math.isnan(value):
            what = "an integer" if self.type is int else "a number"
            raise InvalidInput(f"`{self.name}` must be {what}, got {text!r:.100}", field=self.name)
        return value


@dataclass(frozen=True)
class Operation:
    """The declaration of a method. Types are structs, lists of structs and so on; media types are strings."""

    summary: str
    answer: Any = None
    """The type of the response, or its media type if it is not JSON; None: no body."""
    status: int = 200
    errors: tuple[int, ...] = ()
    """The statuses of errors, in addition to those that any request may have."""
    path: tuple[str, ...] = ()
    """The names of the path parameters, in order."""
    body: Any = None
    """The type or the media type of the request's body, like ``answer``."""
    query: tuple[Query, ...] = field(default=())


def operation(
    summary: str, *, status: int = 0, errors: tuple[int, ...] = (), writes: Any = None
) -> Callable[[Callable[..., Awaitable[Any]]], Answering]:
    """Declare a method of a ``Handler``, which is called for authorized users with arguments of the annotated types.

    ``status`` is the status of the response, by default 200, or 204 without a body. ``errors`` are the statuses of
    errors that the method raises, in addition to 400 for an invalid body or query. With ``writes``, the method finishes
    the response itself, with this type or media type.
    """

    def declare(method: Callable[..., Awaitable[Any]]) -> Answering:
        said = _declared(method, summary, status, errors, writes)

        @functools.wraps(method)
        async def answered(self: Handler, *path: str) -> None:
            named = {query.name: query.read(self.get_query_argument(query.name, None)) for query in said.query}
            if said.body is not None:
                named["body"] = await _decoded(self.raw_body(), said.body)
            value = await method(self, *path, **named)
            if writes is not None:
                return
            if said.answer is None:
                self.done(said.status)
            else:
                self.answer(checked(value, said.answer), said.status)

        setattr(answered, _OPERATION, said)
        return cast(Answering, web.authenticated(answered))  # outermost, where Jupyter expects it

    return declare


def described(
    summary: str, *, answer: Any = None, status: int = 200, errors: tuple[int, ...] = ()
) -> Callable[[Method], Method]:
    """Declare a method that handles requests and responses itself: a WebSocket, or a page of another server."""

    def declare(method: Method) -> Method:
        setattr(method, _OPERATION, _declared(method, summary, status, errors, answer))
        return method

    return declare


def operation_of(method: Callable[..., Any]) -> Operation:
    """Return the declaration of a handler's method. Raises LookupError if it is not declared."""
    found = getattr(method, _OPERATION, None)  # functools.wraps copies it
    if not isinstance(found, Operation):
        raise LookupError(f"{method.__qualname__} of {method.__module__} is not declared: decorate it with @operation")
    return found


def checked(value: Any, type_: Any) -> Any:
    """Return the value if it, and each item of a list, is of the declared type. Raises TypeError otherwise."""
    origin, inner = get_origin(type_) or type_, get_args(type_)
    if not isinstance(value, origin):
        raise TypeError(f"A handler must return the declared type {type_}, got {type(value)}")
    if origin is list:
        for item in value:
            checked(item, inner[0])
    return value


def _declared(method: Any, summary: str, status: int, errors: tuple[int, ...], answer: Any) -> Operation:
    hints = get_type_hints(method, include_extras=True)
    path, query, body = [], [], None
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        hint = hints.get(parameter.name)
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            path.append(parameter.name)
        elif parameter.name == "body":
            body = TEXT if hint is bytes else hint
        elif parameter.kind is parameter.KEYWORD_ONLY:
            if get_origin(hint) is not Annotated:
                raise TypeError(f"{parameter.name} of {method.__qualname__} must be Annotated with its description")
            type_, what = get_args(hint)
            kind = next(kind for kind in (int, float, str) if kind in (type_, *get_args(type_)))
            query.append(Query(parameter.name, kind, what, parameter.default))
    returned = hints.get("return")
    answer = answer if answer is not None else None if returned is type(None) else returned
    return Operation(
        summary=summary,
        answer=answer,
        status=status or (204 if answer is None else 200),
        errors=(*errors, *([400] if body is not None or query else [])),
        path=tuple(path),
        body=body,
        query=tuple(query),
    )


async def _decoded(data: bytes, type_: Any) -> Any:
    if type_ == TEXT:
        return data
    decode = getattr(type_, "decode", None) or functools.partial(_decode_json, type_)
    return decode(data) if len(data) <= _AT_ONCE_BYTES else await asyncio.to_thread(decode, data)


def _decode_json(type_: Any, data: bytes) -> Any:
    return decode_json(data, type_)
