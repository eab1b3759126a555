"""The cluster process's link to a remote controller: it is reopened when it breaks, and no message is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jupyter_dtf.backend.cluster import reconnecting_link
from jupyter_dtf.backend.cluster.certificates import temporary_security
from jupyter_dtf.backend.cluster.controller import Controller
from jupyter_dtf.backend.cluster.reconnecting_link import HeldLink
from jupyter_dtf.backend.cluster.settings import ControllerSettings
from jupyter_dtf.backend.kinds.dask_http import SilentScheduler
from jupyter_dtf.backend.kinds.relay import Relay
from jupyter_dtf.backend.machine.visibility_mark import Mark
from jupyter_dtf.backend.viewer.connections import Connection
from jupyter_dtf.backend.viewer.link import Link
from jupyter_dtf.errors import ClusterLost, Unavailable
from jupyter_dtf.schema.api import ClusterState
from jupyter_dtf.schema.cluster_request import ClusterRequest
from jupyter_dtf.schema.run import RunDescriptor, RunRequest


@asynccontextmanager
async def controller_elsewhere(runs: Path) -> AsyncIterator[tuple[Controller, Relay, Connection]]:
    """Start a controller that is reached through a relay."""
    security: Any = temporary_security()
    async with SilentScheduler(dashboard=False, port=0, host="127.0.0.1", protocol="tls", security=security) as there:
        request = ClusterRequest(name="c", keep=True)
        controller = Controller(ControllerSettings(request, "0", Mark.of(runs), time.time()))
        await controller.start(there)
        host, port = there.address.removeprefix("tls://").split(":")
        context = security.get_connection_args("client")["ssl_context"]
        relay = Relay(security, lambda: asyncio.open_connection(host, int(port), ssl=context))
        connection = Connection(
            "c", "local", ClusterState.RUNNING, 0, 0.0, 0.0, address=await relay.start(), ca=security.tls_ca_file,
            cert=security.tls_client_cert, key=security.tls_client_key,
        )  # fmt: skip
        yield controller, relay, connection
        await relay.close()
        await controller.close()


def break_off(relay: Relay) -> None:
    for task in list(relay._open):
        task.cancel()


async def test_one_that_breaks_is_made_again_and_nothing_is_missed(tmp_path: Path) -> None:
    async with controller_elsewhere(tmp_path) as (controller, relay, connection):
        descriptor = RunDescriptor("r", "r", "c", "program", "", {"worker": 1}, time.time(), {}, str(tmp_path))
        run = controller.runs.add(descriptor, RunRequest())
        told: list[int] = []
        came = asyncio.Condition()
        loop = asyncio.get_running_loop()

        async def wake() -> None:
            async with came:
                came.notify_all()

        def on_message(message: dict[str, Any]) -> None:
            if message["op"] == "event":
                told.append(message["seq"])
            waking.append(loop.create_task(wake()))

        async def known() -> str:
            return ""

        waking: list[asyncio.Task[None]] = []
        link = await HeldLink.open(connection, on_message, lambda: pytest.fail("it is not lost"), known)
        run.note("info", "one")
        async with came:
            await came.wait_for(lambda: told == [0])
        break_off(relay)
        run.note("info", "two")
        assert not await link.request("machines", after=0.0)
        run.note("info", "three")
        async with came:
            await came.wait_for(lambda: told == [0, 1, 2])
        await link.close()
        await asyncio.gather(*waking)


@pytest.mark.parametrize("where", ["asked why", "opened"])
@pytest.mark.parametrize("error", [RuntimeError("no threads"), Unavailable("the gateway is busy")])
async def test_whatever_fails_while_it_is_made_again_it_is_made_or_lost(
    where: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconnecting_link, "AGAIN_S", 0.0)
    monkeypatch.setattr(reconnecting_link, "TRY_S", 0.1)
    async with controller_elsewhere(tmp_path) as (_, relay, connection):
        lost, failing = asyncio.Event(), False

        async def known() -> str:
            if failing and where == "asked why":
                raise error
            return ""

        opens = Link.open

        async def opened(*args: Any, **more: Any) -> Link:
            if failing and where == "opened":
                raise error
            return await opens(*args, **more)

        monkeypatch.setattr(Link, "open", opened)
        link = await HeldLink.open(connection, lambda message: None, lost.set, known)
        failing = True
        break_off(relay)
        await lost.wait()
        with pytest.raises(ClusterLost):
            await link.request("machines", after=0.0)
        await link.close()


async def test_a_failure_that_passes_does_not_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconnecting_link, "AGAIN_S", 0.0)
    async with controller_elsewhere(tmp_path) as (_, relay, connection):
        asked: list[int] = []

        async def known() -> str:
            asked.append(len(asked))
            if len(asked) == 1:
                raise RuntimeError("the proxy is being restarted")
            return ""

        link = await HeldLink.open(connection, lambda message: None, lambda: pytest.fail("it is not lost"), known)
        break_off(relay)
        while not asked:  # until the break has been noticed
            await asyncio.sleep(0)
        assert not await link.request("machines", after=0.0)
        assert len(asked) >= 2
        await link.close()


@pytest.mark.parametrize("elsewhere", [True, False])
async def test_one_whose_controller_is_no_more_is_lost(tmp_path: Path, elsewhere: bool) -> None:
    async with controller_elsewhere(tmp_path) as (_, relay, connection):
        lost = asyncio.Event()

        async def known() -> str:
            return "its pod was evicted"

        link = await HeldLink.open(connection, lambda message: None, lost.set, known if elsewhere else None)
        break_off(relay)
        await lost.wait()
        with pytest.raises(ClusterLost):
            await link.request("machines", after=0.0)
        await link.close()
