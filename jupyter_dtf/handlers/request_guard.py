"""Who may call, and how much may be sent: decided when a request's headers are there, before its body is read."""

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
"""For methods that need no body but may be sent an empty object."""
LINGER_BYTES = 64 << 20
LINGER_UNKNOWN_BYTES = 1 << 16
LINGER_S = 10.0
"""Of a request that was refused, this much is thrown away for so long; less for whom nobody knows."""

STATUS: dict[type[DtfError], int] = {
    InvalidInput: 400,
    NotFound: 404,
    Conflict: 409,
    RunError: 409,
    Unavailable: 503,
    DtfError: 500,
}


def status_of(error: DtfError) -> int:
    """The HTTP status of an error: that of the nearest of its classes."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


class Guard:
    """Goes before Jupyter's handlers in the list of bases, in classes that are decorated with ``stream_request_body``.

    tornado calls ``prepare`` of such a class when the headers are there, and hands over the body in pieces afterwards.
    Of any other class it reads the whole body, up to the server's limit of half a gigabyte, whoever has sent it.

    A refusal is answered at once. What of the body is on its way is then thrown away, up to a limit, before the
    connection is closed: a proxy that cannot deliver the rest of a request says that the server is down.

    All errors are answered with an ErrorInfo.
    """

    auth_resource = AUTH_RESOURCE
    max_body_bytes = NO_BODY_BYTES
    """Of the methods that may have a body; GET and its like have none."""

    async def prepare(self: Any) -> None:
        self._pieces: list[bytes] = []
        self._received = 0
        self._is_refused = False
        try:
            await self.check()
        except (web.HTTPError, DtfError) as error:
            self._refuse(error)

    async def check(self: Any) -> None:
        """Raises if a request is not to be followed, which is told before its body is read."""
        await ensure_async(super().prepare())  # type: ignore[misc]  # which looks at host, origin and XSRF token
        method = getattr(self, self.request.method.lower(), None)
        if not getattr(method, "__allow_unauthenticated", False):  # as Jupyter's OPTIONS, which browsers ask unasked
            await self._check_user()
        if self._announced > self._body_limit:
            raise self._too_large(str(self._announced))

    async def _check_user(self: Any) -> None:
        if self.current_user is None:
            raise web.HTTPError(403, "A request carries Jupyter's token or login cookie")
        action = HTTP_METHOD_TO_AUTH_ACTION[self.request.method]
        allowed = self.authorizer.is_authorized(self, self.current_user, action, self.auth_resource)
        if not await ensure_async(allowed):
            what = "see" if action == "read" else "change"
            raise web.HTTPError(403, f"You are not permitted to {what} the clusters and runs of this server")

    @property
    def _announced(self: Any) -> int:
        """The body's length; 0 where there is none, or where its length is not said."""
        length = self.request.headers.get("Content-Length", "")
        return int(length[:18]) if length.isdecimal() else 0  # tornado refuses what is no length

    @property
    def _body_limit(self: Any) -> int:
        return 0 if self.request.method in ("GET", "HEAD", "OPTIONS") else int(self.max_body_bytes)

    def _too_large(self, received: str) -> web.HTTPError:
        return web.HTTPError(413, f"A body has at most {self._body_limit} bytes here. Received: {received}")

    def data_received(self: Any, chunk: bytes) -> None:
        """Called by tornado for each piece of the body."""
        self._received += len(chunk)
        if self._is_refused:
            if self._received > self._thrown_away:
                self._end()
        elif self._received <= self._body_limit:
            self._pieces.append(chunk)
        else:  # sent without its length
            self._pieces.clear()
            self._refuse(self._too_large(f"{self._received} and more"))

    # -- refusing ------------------------------------------------------------------------------------------------------

    @property
    def _thrown_away(self: Any) -> int:
        return LINGER_BYTES if self._jupyter_current_user is not None else LINGER_UNKNOWN_BYTES

    def _refuse(self: Any, error: Exception) -> None:
        """Answer now. Nothing else of this request is followed."""
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
        """The request's body."""
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
    # A mistake of ours: the log has the traceback, which is nobody else's business.
    return ErrorInfo(message=reason, error="InternalError")
