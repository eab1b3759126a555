"""The route for the kinds of cluster."""

from __future__ import annotations

from ..schema.api import KindInfo
from .base import Handler
from .operation import operation


class KindsHandler(Handler):
    @operation("List the kinds of cluster that can be started, with their options")
    async def get(self) -> list[KindInfo]:
        return await self.services.kinds()
