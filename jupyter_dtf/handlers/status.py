"""The route for the server's status."""

from __future__ import annotations

from ..schema.api import StatusInfo
from .base import Handler
from .operation import operation


class StatusHandler(Handler):
    @operation("Get versions and notes about this server")
    async def get(self) -> StatusInfo:
        return await self.services.status()
