"""The common base of all REST routes: access to the server's services, and writing responses."""

from __future__ import annotations

from typing import Any

from jupyter_server.base.handlers import APIHandler
from tornado import web

from ..errors import NotFound
from ..schema.base import encode_json
from .request_guard import Guard
from .services import Services

SETTING = "jupyter_dtf_services"


@web.stream_request_body
class Handler(Guard, APIHandler):  # type: ignore[misc]  # the signatures of prepare differ
    """Base of the REST handlers. A method's DtfError is returned as an ErrorInfo with the status of its class.

    Methods are declared with ``operation``, which requires authentication in the way that Jupyter expects, in addition
    to ``Guard``.
    """

    @property
    def services(self) -> Services:
        services: Services = self.settings[SETTING]
        return services

    def answer(self, value: Any, status: int = 200) -> None:
        """Finish the response with a struct, or a list of structs, as JSON."""
        self.set_status(status)
        self.finish(encode_json(value))

    def done(self, status: int = 204) -> None:
        """Finish the response without a body."""
        self.set_status(status)
        self.finish()


class UnknownHandler(Handler):
    """Handles paths below our prefix that are not routes."""

    async def check(self) -> None:
        await super().check()
        raise NotFound(f"There is no route {self.request.path!r:.200}")
