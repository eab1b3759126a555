"""How the cluster of the kind ``gateway`` follows its workers and scales, with scripted connections and gateways."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jupyter_dtf.backend.cluster.certificates import temporary_security
from jupyter_dtf.backend.kinds import gateway_cluster
from jupyter_dtf.backend.kinds.gateway_cluster import GatewayHosts
from jupyter_dtf.schema.machines import ComingHost

from ...patience import left_s

STARTING = ComingHost(name="worker 2", step="starting")


class Comm:
    """A connection to the scheduler, which says ``said``: messages, then an error or nothing more (``is_over``)."""

    def __init__(self, *said: Any) -> None:
        self.is_over = asyncio.Event()
        self._said = list(said)

    async def write(self, message: Any) -> None:
        pass

    async def read(self) -> Any:
        if not self._said:
            self.is_over.set()
            await asyncio.Event().wait()
        message = self._said.pop(0)
        if isinstance(message, Exception):
            raise message
        return message

    def abort(self) -> None:
        pass


class Gateway:
    """A gateway that raises the errors one after the other when it is asked to scale, and then agrees."""

    address = "http://gateway"

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)

    async def scale_cluster(self, name: str, count: int) -> None:
        if self._errors:
            raise self._errors.pop(0)


@asynccontextmanager
async def hosts_of(gateway: Gateway) -> AsyncIterator[GatewayHosts]:
    hosts = GatewayHosts(gateway, "g1", None, "tls://127.0.0.1:1", temporary_security())  # type: ignore[arg-type]
    try:
        yield hosts
    finally:
        tasks = [task for task in (hosts._following, hosts._scaling) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await hosts.scheduler_comm.close_rpc()


async def test_workers_are_followed_again_after_a_lost_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    last = Comm({"workers": {"a": {}, "b": {}}}, [("remove", "a")], [("add", {"workers": {"c": {}}})])
    connections: list[Comm | Exception] = [
        OSError("the proxy restarts"),
        Comm({"workers": {"a": {}}}, OSError("the proxy has closed the connection")),
        RuntimeError("unforeseen"),
        last,
    ]

    async def connect(address: str, **more: Any) -> Comm:
        connection = connections.pop(0)
        if isinstance(connection, Exception):
            raise connection
        return connection

    monkeypatch.setattr(gateway_cluster, "connect", connect)
    monkeypatch.setattr(gateway_cluster, "AGAIN_S", 0.0)
    async with hosts_of(Gateway()) as hosts:
        told: list[list[ComingHost]] = []
        hosts.worker_spec = range(2)
        hosts.watch_hosts(told.append)
        await asyncio.wait_for(last.is_over.wait(), left_s())
        assert told[1:] == [[STARTING], [], [STARTING], []]


async def test_an_unforeseen_error_while_scaling_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(address: str, **more: Any) -> Comm:
        return Comm()

    monkeypatch.setattr(gateway_cluster, "connect", connect)
    async with hosts_of(Gateway(RuntimeError("unforeseen"))) as hosts:
        hosts.scale(1)
        refused = asyncio.Event()
        hosts.watch_hosts(lambda coming: refused.set() if coming[0].problem == "RuntimeError: unforeseen" else None)
        await asyncio.wait_for(refused.wait(), left_s())
