from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.errors import Unavailable
from jupyter_dtf.handlers.services import Services
from jupyter_dtf.handlers.socket import MAX_MESSAGE_BYTES
from jupyter_dtf.schema.run import RunState

from ..patience import left_s
from .fleet import MemoryFleet
from .test_runs import feed

Connect = Callable[[], Awaitable[Any]]


async def read(socket: Any, kind: str) -> dict[str, Any]:
    while True:
        data = await asyncio.wait_for(socket.read_message(), left_s())
        assert data is not None, "closed"
        message: dict[str, Any] = json.loads(data)
        if message["type"] == kind:
            return message


async def closed(socket: Any) -> int:
    while await asyncio.wait_for(socket.read_message(), left_s()) is not None:
        pass
    return int(socket.close_code)


async def test_the_socket_tells_and_follows(hub: Hub, fleet: MemoryFleet, connect: Connect) -> None:
    feed(hub, end=RunState.RUNNING)
    socket = await connect()
    assert (await read(socket, "clusters"))["clusters"] == []
    assert [run["id"] for run in (await read(socket, "runs"))["runs"]] == ["r1"]
    await socket.write_message(json.dumps({"type": "subscribe", "run": "r1"}))
    assert (await read(socket, "events"))["next_seq"] == 8
    assert {frame["task"] for frame in (await read(socket, "series"))["frames"]} == {"", "worker:0", "worker:1"}
    await socket.write_message("nonsense")
    assert "JSON" in (await read(socket, "error"))["message"]
    assert fleet.subscribers == 1
    gone = asyncio.Event()
    fleet.on_leave = gone.set
    socket.close()
    await asyncio.wait_for(gone.wait(), left_s())
    assert fleet.subscribers == 0


async def test_what_is_sent_before_the_fleet_is_there_is_followed(
    memory_fleet: None, services: Services, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = asyncio.Event()
    start = MemoryFleet.start

    async def slow(fleet: MemoryFleet) -> None:
        await go_on.wait()
        feed(fleet.hub)
        await start(fleet)

    monkeypatch.setattr(MemoryFleet, "start", slow)
    socket = await connect()
    await socket.write_message(json.dumps({"type": "subscribe", "run": "r1"}))
    go_on.set()
    assert (await read(socket, "events"))["next_seq"] == 11


async def test_a_page_of_another_protocol_is_told_so_and_no_more(fleet: MemoryFleet, jp_ws_fetch: Any) -> None:
    for asked, code in (({"protocol": "9", "oldest": "8"}, 4001), ({"protocol": "0", "oldest": "0"}, 4001)):
        socket = await jp_ws_fetch("jupyter-dtf", "api", "events", params=asked)
        hello = json.loads(await asyncio.wait_for(socket.read_message(), left_s()))
        assert (hello["type"], hello["protocol"], hello["oldest"]) == ("hello", 1, 1)
        assert await closed(socket) == code
        socket.close()
    socket = await jp_ws_fetch("jupyter-dtf", "api", "events", params={"protocol": "9", "oldest": "1"})
    assert (await read(socket, "clusters"))["clusters"] == []
    socket.close()


async def test_a_message_is_short(fleet: MemoryFleet, connect: Connect) -> None:
    socket = await connect()
    await socket.write_message("x" * (MAX_MESSAGE_BYTES + 1))
    assert await closed(socket) == 1009


async def test_a_fleet_that_cannot_start_is_told(
    memory_fleet: None, services: Services, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(fleet: MemoryFleet) -> None:
        raise Unavailable("no more")

    monkeypatch.setattr(MemoryFleet, "start", fail)
    socket = await connect()
    assert (await read(socket, "error"))["message"] == "no more"
    assert await closed(socket) == 1011
