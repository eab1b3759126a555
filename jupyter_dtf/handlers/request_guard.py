"""Authorization and size limits, which are checked after the headers of a request and before its body are read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http.client import responses
from typing import Any

from jupyter_core.utils import ensure_async
from jupyter_server.auth.utils import HTTP_METHOD_TO_AUTH_ACTION
from tornado import web

from ..errors import Conflict, DtfError, InvalidInput, NotFound, RunError, Unavailable
from ..schema.api import ErrorInfo
from ..schema.base import encode_json

AUTH_RESOURCE = "jupyter_dtf"
NO_BODY_BYTES = 1 << 10
"""The body limit, in bytes, of methods that need no body but may be sent an empty object."""
LINGER_BYTES = 64 << 20
LINGER_UNKNOWN_BYTES = 1 << 16
LINGER_S = 10.0
"""Limits for discarding the body of a rejected request: bytes if authenticated, bytes if not, and seconds."""

STATUS: dict[type[DtfError], int] = {
    InvalidInput: 400,
    NotFound: 404,
    Conflict: 409,
    RunError: 409,
    Unavailable: 503,
    DtfError: 500,
}


def status_of(error: DtfError) -> int:
    """Return the HTTP status of an error: the status of the most specific of its classes that has one."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


class Guard:
    """A mixin that precedes Jupyter's handlers in the bases of classes decorated with ``stream_request_body``.

    For such classes, tornado calls ``prepare`` when the headers have arrived, and passes on the body in pieces. For any
    other class, it first reads the whole body, up to the server's limit of half a gigabyte, regardless of who sent it.

    A rejected request is answered immediately. The rest of its body is then discarded, up to a limit, before the
    connection is closed, because a proxy that cannot deliver the rest of a request reports the server as down.

    All errors are returned as an ErrorInfo.
    """

    auth_resource = AUTH_RESOURCE
    max_body_bytes = NO_BODY_BYTES
    """The body limit, in bytes, of methods that can have a body, unlike GET."""

    async def prepare(self: Any) -> None:
        self._pieces: list[bytes] = []
        self._received = 0
        self._is_refused = False
        try:
            await self.check()
        except (web.HTTPError, DtfError) as error:
            self._refuse(error)

    async def check(self: Any) -> None:
        """Raise an error if the request must be rejected. Called before the body is read."""
        await ensure_async(super().prepare())  # type: ignore[misc]  # checks host, origin and XSRF token
        method = getattr(self, self.request.method.lower(), None)
        if not getattr(method, "__allow_unauthenticated", False):  # such as Jupyter's OPTIONS, for preflight requests
            await self._check_user()
        if self._announced > self._body_limit:
            raise self._too_large(str(self._announced))

    async def _check_user(self: Any) -> None:
        if self.current_user is None:
            raise web.HTTPError(403, "A request must carry Jupyter's token or login cookie")
        action = HTTP_METHOD_TO_AUTH_ACTION[self.request.method]
        allowed = self.authorizer.is_authorized(self, self.current_user, action, self.auth_resource)
        if not await ensure_async(allowed):
            what = "see" if action == "read" else "change"
            raise web.HTTPError(403, f"You are not permitted to {what} the clusters and runs of this server")

    @property
    def _announced(self: Any) -> int:
        """The declared length of the body; 0 if there is no body or its length is not declared."""
        length = self.request.headers.get("Content-Length", "")
        return int(length[:18]) if length.isdecimal() else 0  # tornado rejects an invalid length

    @property
    def _body_limit(self: Any) -> int:
        return 0 if self.request.method in ("GET", "HEAD", "OPTIONS") else int(self.max_body_bytes)

    def _too_large(self, received: str) -> web.HTTPError:
        return web.HTTPError(413, f"The body must have at most {self._body_limit} bytes, got {received}")

    def data_received(self: Any, chunk: bytes) -> None:
        """Handle a piece of the body. Called by tornado."""
        self._received += len(chunk)
        if self._is_refused:
            if self._received > self._thrown_away:
                self._end()
        elif self._received <= self._body_limit:
            self._pieces.append(chunk)
        else:  # sent without a declared length
            self._pieces.clear()
            self._refuse(self._too_large(f"{self._received} and more"))

    # -- refusing ------------------------------------------------------------------------------------------------------

    @property
    def _thrown_away(self: Any) -> int:
        return LINGER_BYTES if self._jupyter_current_user is not None else LINGER_UNKNOWN_BYTES

    def _refuse(self: Any, error: Exception) -> None:
        """Respond with an error immediately. The rest of the request is not processed."""
        self._is_refused = True
        method = self.request.method.lower()
        if not self._announced and "Transfer-Encoding" not in self.request.headers:
            setattr(self, method, _raising(error))  # tornado's usual way, which keeps the connection
            return
        setattr(self, method, lambda *_args, **_named: self._end())  # called when the body has been read
        self.clear()
        self.set_status(status_of(error) if isinstance(error, DtfError) else error.status_code)  # type: ignore[attr-defined]
        answer = encode_json(_described(error, self.get_status()))
        self.set_header("Content-Type", "application/json")
        self.set_header("Content-Length", str(len(answer)))
        self.write(answer)
        self.flush()
        if self._announced > self._thrown_away:
            self._end()
        else:
            self._ending = asyncio.get_running_loop().call_later(LINGER_S, self._end)

    def _end(self: Any) -> None:
        if not self._finished:
            self.finish()

    def raw_body(self) -> bytes:
        """Return the body of the request."""
        return b"".join(self._pieces)

    # -- errors --------------------------------------------------------------------------------------------------------

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        error = kwargs["exc_info"][1] if "exc_info" in kwargs else None
        status = status_of(error) if isinstance(error, DtfError) else status_code
        super().send_error(status, **kwargs)  # type: ignore[misc]

    def write_error(self: Any, status_code: int, **kwargs: Any) -> None:
        self.set_header("Content-Type", "application/json")
        self.finish(encode_json(_described(kwargs["exc_info"][1] if "exc_info" in kwargs else None, status_code)))

    def log_exception(self: Any, typ: Any, value: Any, tb: Any) -> None:
        if isinstance(value, DtfError) and status_of(value) < 500:
            self.log.debug("%s: %s", type(value).__name__, value)
        elif isinstance(value, DtfError):
            self.log.warning("%s: %s", type(value).__name__, value)
        else:
            super().log_exception(typ, value, tb)  # type: ignore[misc]


def _raising(error: Exception) -> Callable[..., None]:
    def refused(*_args: Any, **_named: Any) -> None:
        raise error

    return refused


def _described(error: BaseException | None, status: int) -> ErrorInfo:
    reason = responses.get(status, "Unknown error")
    if isinstance(error, DtfError):
        return ErrorInfo(message=str(error), error=type(error).__name__, field=getattr(error, "field", ""))
    if isinstance(error, web.HTTPError):
        message = error.log_message % error.args if error.log_message else reason
        return ErrorInfo(message=message, error="HTTPError")
    # A bug: the traceback goes to the log and is not revealed to the client.
    return ErrorInfo(message=reason, error="InternalError")
