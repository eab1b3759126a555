"""Clusters: list, start, preview, scale, stop, Dask's dashboard."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado import web

from ..schema.api import ClusterPatch, ClusterRequest, DashboardInfo
from .base import Handler


class ClustersHandler(Handler):
    @web.authenticated
    @authorized
    async def get(self) -> None:
        self.answer((await self.services.fleet()).clusters())

    @web.authenticated
    @authorized
    async def post(self) -> None:
        request = await self.services.complete(self.body(ClusterRequest))
        self.answer(await (await self.services.fleet()).start_cluster(request), status=201)


class PreviewHandler(Handler):
    @web.authenticated
    @authorized
    async def post(self) -> None:
        self.answer(await self.services.preview(self.body(ClusterRequest)))


class ClusterHandler(Handler):
    @web.authenticated
    @authorized
    async def get(self, name: str) -> None:
        self.answer((await self.services.fleet()).cluster(name))

    @web.authenticated
    @authorized
    async def patch(self, name: str) -> None:
        patch = self.body(ClusterPatch)
        fleet = await self.services.fleet()
        fleet.cluster(name)
        self.answer(await fleet.scale(name, patch.jobs))

    @web.authenticated
    @authorized
    async def delete(self, name: str) -> None:
        await (await self.services.fleet()).stop_cluster(name)
        self.done()


class DashboardHandler(Handler):
    @web.authenticated
    @authorized
    async def post(self, name: str) -> None:
        self.answer(DashboardInfo(url=await (await self.services.fleet()).dashboard(name)))
