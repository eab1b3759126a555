"""Routes for clusters: listing, starting, previewing, scaling and stopping; machine metrics; Dask's dashboard."""

from __future__ import annotations

from typing import Annotated

from ..schema.api import ClusterInfo, ClusterPatch, DashboardInfo, Preview, dashboard_path
from ..schema.cluster_request import ClusterRequest
from ..schema.machines import MachineSeries
from .base import Handler
from .operation import operation

MAX_REQUEST_BYTES = 1 << 20
"""Large enough for a cluster with ten thousand tasks in its design."""
MAX_PATCH_BYTES = 1 << 14


class ClustersHandler(Handler):
    max_body_bytes = MAX_REQUEST_BYTES

    @operation("List all clusters, oldest first")
    async def get(self) -> list[ClusterInfo]:
        return (await self.services.fleet()).clusters()

    @operation(
        "Start a cluster; the response is sent immediately, with the state starting", status=201, errors=(409, 503)
    )
    async def post(self, *, body: ClusterRequest) -> ClusterInfo:
        request = await self.services.complete(body)
        return await (await self.services.fleet()).start_cluster(request)


class PreviewHandler(Handler):
    max_body_bytes = MAX_REQUEST_BYTES

    @operation("Preview the cluster that a request would create, and its problems")
    async def post(self, *, body: ClusterRequest) -> Preview:
        return await self.services.preview(body)


class ClusterHandler(Handler):
    max_body_bytes = MAX_PATCH_BYTES

    @operation("Get one cluster", errors=(404,))
    async def get(self, name: str) -> ClusterInfo:
        return (await self.services.fleet()).cluster(name)

    @operation("Change the numbers of tasks for future runs", errors=(404, 503))
    async def patch(self, name: str, *, body: ClusterPatch) -> ClusterInfo:
        fleet = await self.services.fleet()
        fleet.cluster(name)
        return await fleet.scale(name, body.jobs)

    @operation("Close a cluster and stop its runs; if it is already closing, end it immediately", errors=(404, 503))
    async def delete(self, name: str) -> None:
        await (await self.services.fleet()).stop_cluster(name)


class MachinesHandler(Handler):
    @operation("Get the load of a cluster's machines over time, as a series per host and metric", errors=(404, 503))
    async def get(
        self,
        name: str,
        *,
        after: Annotated[
            float,
            "Only values after this time, in seconds since 1970; by default, the last hour in steps of two seconds and "
            "the day before that in steps of a minute",
        ] = 0.0,
    ) -> list[MachineSeries]:
        return await (await self.services.fleet()).machines(name, after)


class DashboardHandler(Handler):
    @operation("Turn on Dask's dashboard, and return its path on this server", errors=(404, 503))
    async def post(self, name: str) -> DashboardInfo:
        await (await self.services.fleet()).dashboard(name)
        return DashboardInfo(url=self.base_url + dashboard_path(name))
