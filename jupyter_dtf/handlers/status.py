"""GET status."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado import web

from .base import Handler


class StatusHandler(Handler):
    @web.authenticated
    @authorized
    async def get(self) -> None:
        self.answer(await self.services.status())
