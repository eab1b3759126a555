"""GET status."""

from __future__ import annotations

from ..schema.api import StatusInfo
from .base import Handler
from .operation import operation


class StatusHandler(Handler):
    @operation("Versions, and notices about this server")
    async def get(self) -> StatusInfo:
        return await self.services.status()
