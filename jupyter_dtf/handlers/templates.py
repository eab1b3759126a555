"""Templates: list, remember, forget."""

from __future__ import annotations

import asyncio

from jupyter_server.auth.decorator import authorized
from tornado import web

from ..schema.api import ClusterRequest, Template
from .base import Handler


class TemplatesHandler(Handler):
    @web.authenticated
    @authorized
    async def get(self) -> None:
        self.answer(await asyncio.to_thread(self.services.templates.all))


class TemplateHandler(Handler):
    @web.authenticated
    @authorized
    async def put(self, name: str) -> None:
        template = Template(name=name, request=self.body(ClusterRequest))
        await asyncio.to_thread(self.services.templates.put, template)
        self.done()

    @web.authenticated
    @authorized
    async def delete(self, name: str) -> None:
        await asyncio.to_thread(self.services.templates.delete, name)
        self.done()
