"""What all REST routes share: the server's services, and how an answer is written."""

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
class Handler(Guard, APIHandler):  # type: ignore[misc]  # their signatures of prepare differ
    """Base of the REST handlers. A DtfError that a method raises becomes an ErrorInfo with the status of its class.

    Methods are declared by ``operation``, which asks for a person as Jupyter wants it; ``Guard`` has looked before.
    """

    @property
    def services(self) -> Services:
        services: Services = self.settings[SETTING]
        return services

    def answer(self, value: Any, status: int = 200) -> None:
        """Finish with a struct, or a list of them, as JSON."""
        self.set_status(status)
        self.finish(encode_json(value))

    def done(self, status: int = 204) -> None:
        """Finish without a body."""
        self.set_status(status)
        self.finish()


class UnknownHandler(Handler):
    """What is below our prefix and no route."""

    async def check(self) -> None:
        await super().check()
        raise NotFound(f"There is no such route. Received: {self.request.path!r:.200}")
