"""The Dask cluster of the kind ``gateway``: started, scaled and stopped by the gateway, reached through its proxy."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import ssl
import warnings
from collections.abc import Mapping
from typing import Any

from dask_gateway import Gateway, GatewayWarning
from dask_gateway.client import ClusterReport, ClusterStatus
from dask_gateway.comm import parse_gateway_address
from distributed.comm import connect

from ...errors import DtfError, Unavailable
from ...schema.machines import ComingHost
from . import gateway_client, registry
from .base import ENDED, Kind
from .relay import Relay, Streams
from .remote_scheduler import ElsewhereCluster

logger = logging.getLogger(__name__)

LOOK_S = 0.5
AGAIN_S = 1.0
"""The delay in seconds before a lost connection to the scheduler is reopened."""
STOPPED_S = 6.0
"""How long to wait for the gateway to stop a cluster."""
_ENDS = (ClusterStatus.STOPPED, ClusterStatus.FAILED)
_CAPPED = re.compile(r"Scaling to (\d+) instead")


async def abandon(scheduler: Any) -> None:
    """Request that the gateway stop this cluster, because the cluster process is gone. If that fails, close the
    scheduler.
    """
    service = scheduler.services.get("gateway")
    try:
        await service.gateway.shutdown()
    except Exception:
        logger.exception("The gateway could not be asked to stop this cluster")
        await scheduler.close()


class GatewayHosts(ElsewhereCluster):
    """A Dask cluster that a gateway manages. Its workers have no names until they join."""

    abandon = staticmethod(abandon)

    def __init__(self, gateway: Gateway, name: str, relay: Relay, address: str, security: Any) -> None:
        super().__init__(address, security)
        self._gateway = gateway
        self._name = name
        self._relay = relay
        self._most = -1
        self._refusal = ""
        self._joined: set[str] = set()
        self._scaling: asyncio.Task[None] | None = None
        self._following = asyncio.create_task(self._follow())

    def scale(self, n: int) -> None:
        super().scale(n)
        if self._scaling is None or self._scaling.done():
            self._scaling = asyncio.create_task(self._scale())
        self._changed()

    def watch_hosts(self, tell: Any) -> None:
        super().watch_hosts(tell)
        self._changed()

    async def words_of_end(self) -> str:
        with contextlib.suppress(DtfError):
            report = await gateway_client.ask(self._gateway, self._gateway.get_cluster(self._name))
            if report.status in (*_ENDS, ClusterStatus.STOPPING):
                return (
                    f"The gateway has ended the cluster {self._name}: it is {report.status.name}. The gateway gives no "
                    "reason: ask its administrators"
                )
        return ""

    async def close(self) -> None:
        for task in (self._following, self._scaling):
            if task is not None:
                task.cancel()
        await super().close()
        await self._relay.close()
        await stop(self._gateway, self._name)

    async def _scale(self) -> None:
        """Send the wanted number of workers to the gateway, and send it again if it has changed in the meantime."""
        asked = -1
        while asked != (asked := len(self.worker_spec)):
            try:
                with warnings.catch_warnings(record=True) as told:
                    warnings.simplefilter("always", GatewayWarning)
                    await gateway_client.ask(self._gateway, self._gateway.scale_cluster(self._name, asked))
                self._refusal = "; ".join(str(each.message) for each in told if each.category is GatewayWarning)
                capped = _CAPPED.search(self._refusal)
                self._most = int(capped[1]) if capped else -1
            except DtfError as error:
                self._refusal, self._most = str(error), len(self._joined)
            except Exception as error:
                logger.exception("The cluster %s could not be scaled", self._name)
                self._refusal, self._most = f"{type(error).__name__}: {error}", len(self._joined)
            self._changed()

    async def _follow(self) -> None:
        """Track the workers that have joined. A lost connection, which a proxy may close, is reopened until closed."""
        while True:
            try:
                await self._follow_once()
            except OSError as error:
                logger.info("The workers of %s cannot be followed at the moment: %s", self._name, error)
            except Exception:
                logger.exception("The workers of %s could not be followed", self._name)
            await asyncio.sleep(AGAIN_S)

    async def _follow_once(self) -> None:
        """Track the workers that have joined, until the connection to the scheduler is lost (OSError)."""
        comm = await connect(self.scheduler_address, **self.security.get_connection_args("client"))
        try:
            await comm.write({"op": "subscribe_worker_status"})
            self._joined = set((await comm.read())["workers"])
            while True:
                self._changed()
                for operation, message in await comm.read():
                    if operation == "add":
                        self._joined |= set(message["workers"])
                    elif operation == "remove":
                        self._joined.discard(message)
        finally:
            comm.abort()

    def _changed(self) -> None:
        """Report the missing workers, which are numbered because the gateway has no names for them."""
        wanted = len(self.worker_spec)
        there = min(len(self._joined), wanted)
        most = wanted if self._most < 0 else min(self._most, wanted)
        waiting = [ComingHost(name=f"worker {number + 1}", step="starting") for number in range(there, most)]
        refused = [
            ComingHost(name=f"worker {number + 1}", step=ENDED, problem=self._refusal)
            for number in range(max(there, most), wanted)
        ]
        self._tell(waiting + refused)


async def start(kind: Kind, options: Mapping[str, Any], security: Any) -> GatewayHosts:
    """Start a cluster and wait for its scheduler. Raises InvalidInput or Unavailable."""
    gateway = gateway_client.make(options)
    name = ""
    try:
        offer = await gateway_client.offer(gateway)
        gateway_client.choose(offer, registry.check_more(kind, options, gateway_client.fields_of(offer)))
        name = await gateway_client.ask(gateway, gateway.submit(offer))
        report = await _started(gateway, name)
        relay = Relay(security, _Way(report).open)
        try:
            return GatewayHosts(gateway, name, relay, await relay.start(), security)
        except BaseException:
            await relay.close()
            raise
    except BaseException:
        await stop(gateway, name)
        raise


class _Way:
    """Opens connections through the gateway's proxy, which routes them by the TLS server name."""

    def __init__(self, report: ClusterReport) -> None:
        self._host, self._port, name = parse_gateway_address(report.scheduler_address)
        self._server = f"daskgateway-{name}"
        self._context: ssl.SSLContext = report.security.get_connection_args("client")["ssl_context"]

    async def open(self) -> Streams:
        """Open a connection to the scheduler. Raises OSError."""
        return await asyncio.open_connection(self._host, self._port, ssl=self._context, server_hostname=self._server)


async def _started(gateway: Gateway, name: str) -> ClusterReport:
    """Wait until the cluster's scheduler is running, however long it is queued, and return the gateway's report.

    Raises Unavailable if the cluster has stopped or failed.
    """
    while True:
        report = await gateway_client.ask(gateway, gateway.get_cluster(name))
        if report.status is ClusterStatus.RUNNING:
            return report
        if report.status in _ENDS:  # STOPPING is followed by one of these
            raise Unavailable(
                f"The gateway {gateway.address} could not start the cluster {name}: it is {report.status.name}. The "
                "gateway gives no reason: ask its administrators"
            )
        await asyncio.sleep(LOOK_S)


async def stop(gateway: Gateway, name: str) -> None:
    """Stop a cluster, wait until the gateway has stopped it (at most ``STOPPED_S``), and close the client.

    If ``name`` is empty, only the client is closed.
    """
    try:
        if name:
            await gateway_client.ask(gateway, gateway.stop_cluster(name))
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(_stopped(gateway, name), STOPPED_S)
    except DtfError as error:
        logger.warning("The cluster %s may still be running: %s", name, error)
    finally:
        await gateway.close()


async def _stopped(gateway: Gateway, name: str) -> None:
    while (await gateway_client.ask(gateway, gateway.get_cluster(name))).status not in _ENDS:
        await asyncio.sleep(LOOK_S / 2)
