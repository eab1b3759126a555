"""Clusters: list, start, preview, scale, stop, how their machines were, Dask's dashboard."""

from __future__ import annotations

from typing import Annotated

from ..schema.api import ClusterInfo, ClusterPatch, DashboardInfo, Preview, dashboard_path
from ..schema.cluster_request import ClusterRequest
from ..schema.machines import MachineSeries
from .base import Handler
from .operation import operation

MAX_REQUEST_BYTES = 1 << 20
"""A cluster of which ten thousand tasks are drawn."""
MAX_PATCH_BYTES = 1 << 14


class ClustersHandler(Handler):
    max_body_bytes = MAX_REQUEST_BYTES

    @operation("Every cluster, oldest first")
    async def get(self) -> list[ClusterInfo]:
        return (await self.services.fleet()).clusters()

    @operation("Start a cluster; it is answered at once, in state starting", status=201, errors=(409, 503))
    async def post(self, *, body: ClusterRequest) -> ClusterInfo:
        request = await self.services.complete(body)
        return await (await self.services.fleet()).start_cluster(request)


class PreviewHandler(Handler):
    max_body_bytes = MAX_REQUEST_BYTES

    @operation("What a request would make, and what is wrong with it")
    async def post(self, *, body: ClusterRequest) -> Preview:
        return await self.services.preview(body)


class ClusterHandler(Handler):
    max_body_bytes = MAX_PATCH_BYTES

    @operation("One cluster", errors=(404,))
    async def get(self, name: str) -> ClusterInfo:
        return (await self.services.fleet()).cluster(name)

    @operation("New counts of tasks, for the runs to come", errors=(404, 503))
    async def patch(self, name: str, *, body: ClusterPatch) -> ClusterInfo:
        fleet = await self.services.fleet()
        fleet.cluster(name)
        return await fleet.scale(name, body.jobs)

    @operation("Close a cluster and stop its runs; asked again while it is closing, end it at once", errors=(404, 503))
    async def delete(self, name: str) -> None:
        await (await self.services.fleet()).stop_cluster(name)


class MachinesHandler(Handler):
    @operation("How the machines of a cluster's hosts were, a series for each host and figure", errors=(404, 503))
    async def get(
        self,
        name: str,
        *,
        after: Annotated[
            float,
            "only what is newer than this, in seconds since the epoch; without it the last hour, every two seconds, "
            "and a day before it by the minute",
        ] = 0.0,
    ) -> list[MachineSeries]:
        return await (await self.services.fleet()).machines(name, after)


class DashboardHandler(Handler):
    @operation("Turn Dask's dashboard on, and say where it is on this server", errors=(404, 503))
    async def post(self, name: str) -> DashboardInfo:
        await (await self.services.fleet()).dashboard(name)
        return DashboardInfo(url=self.base_url + dashboard_path(name))
