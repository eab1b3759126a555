"""Routes for templates: listing, saving and deleting cluster requests."""

from __future__ import annotations

import asyncio

from ..schema.api import Template
from ..schema.cluster_request import ClusterRequest
from .base import Handler
from .clusters import MAX_REQUEST_BYTES
from .operation import operation


class TemplatesHandler(Handler):
    @operation("List the saved cluster requests, sorted by name", errors=(503,))
    async def get(self) -> list[Template]:
        return await asyncio.to_thread(self.services.templates.all)


class TemplateHandler(Handler):
    max_body_bytes = MAX_REQUEST_BYTES

    @operation("Save a cluster request", errors=(503,))
    async def put(self, name: str, *, body: ClusterRequest) -> None:
        await asyncio.to_thread(self.services.templates.put, Template(name=name, request=body))

    @operation("Delete a saved cluster request", errors=(404, 503))
    async def delete(self, name: str) -> None:
        await asyncio.to_thread(self.services.templates.delete, name)
