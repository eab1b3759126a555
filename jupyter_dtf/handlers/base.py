"""What all routes share: who may call, how a body is read, which status an error has."""

from __future__ import annotations

from http.client import responses
from typing import Any, TypeVar

from jupyter_server.base.handlers import APIHandler
from tornado import web

from ..errors import Conflict, DtfError, InvalidInput, NotFound, RunError, Unavailable
from ..schema.api import ErrorInfo
from ..schema.base import decode_json, encode_json
from .services import Services

T = TypeVar("T")

AUTH_RESOURCE = "jupyter_dtf"
SETTING = "jupyter_dtf_services"
MAX_BODY_BYTES = 1 << 20

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


class Handler(APIHandler):
    """Base of the REST handlers. A DtfError that a method raises becomes an ErrorInfo with the status of its class."""

    auth_resource = AUTH_RESOURCE
    max_body_bytes = MAX_BODY_BYTES

    @property
    def services(self) -> Services:
        services: Services = self.settings[SETTING]
        return services

    def body(self, type_: type[T]) -> T:
        """The request's body as a struct. Raises InvalidInput."""
        return decode_json(self.raw_body(), type_)

    def raw_body(self) -> bytes:
        """The request's body. Raises InvalidInput if it is too large."""
        if len(self.request.body) > self.max_body_bytes:
            raise InvalidInput(f"A body has at most {self.max_body_bytes} bytes. Received: {len(self.request.body)}")
        return self.request.body

    def query_int(self, name: str, default: int) -> int:
        """A whole number from the query. Raises InvalidInput."""
        text = self.get_query_argument(name, str(default))
        try:
            return int(text)
        except ValueError:
            raise InvalidInput(f"{name} is a whole number. Received: {text!r:.100}", field=name) from None

    def answer(self, value: Any, status: int = 200) -> None:
        """Finish with a struct, or a list of them, as JSON."""
        self.set_status(status)
        self.finish(encode_json(value))

    def done(self, status: int = 204) -> None:
        """Finish without a body."""
        self.set_status(status)
        self.finish()

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        error = kwargs["exc_info"][1] if "exc_info" in kwargs else None
        super().send_error(status_of(error) if isinstance(error, DtfError) else status_code, **kwargs)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs["exc_info"][1] if "exc_info" in kwargs else None
        reason = responses.get(status_code, "Unknown error")
        if isinstance(error, DtfError):
            info = ErrorInfo(message=str(error), error=type(error).__name__, field=getattr(error, "field", ""))
        elif isinstance(error, web.HTTPError):
            info = ErrorInfo(message=error.log_message or reason, error="HTTPError")
        else:  # a mistake of ours: the log has the traceback, which is nobody else's business
            info = ErrorInfo(message=reason, error="InternalError")
        self.finish(encode_json(info))

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        if isinstance(value, DtfError) and status_of(value) < 500:
            self.log.debug("%s: %s", type(value).__name__, value)
        elif isinstance(value, DtfError):
            self.log.warning("%s: %s", type(value).__name__, value)
        else:
            super().log_exception(typ, value, tb)
