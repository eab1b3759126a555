"""GET kinds."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado import web

from .base import Handler


class KindsHandler(Handler):
    @web.authenticated
    @authorized
    async def get(self) -> None:
        self.answer(await self.services.kinds())
