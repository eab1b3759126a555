"""GET kinds."""

from __future__ import annotations

from ..schema.api import KindInfo
from .base import Handler
from .operation import operation


class KindsHandler(Handler):
    @operation("The kinds of cluster that can be started, with their options")
    async def get(self) -> list[KindInfo]:
        return await self.services.kinds()
