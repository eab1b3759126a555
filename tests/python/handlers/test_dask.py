"""Tests of Dask's dashboard through the Jupyter server: pages, files, WebSocket, and no access to other machines."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from jupyter_dtf.handlers.services import Services

from ..patience import left_s
from .conftest import Api
from .fleet import MemoryFleet
from .test_auth import login

BASE = ("clusters", "board", "dask")


async def test_a_dashboard_that_is_off_or_gone_is_said_to_be(fleet: MemoryFleet, api: Api) -> None:
    assert "'x'" in (await api.refused(404, "GET", "clusters", "x", "dask", "status"))["message"]
    await api("POST", "clusters", body={"name": "x"})
    assert "is off until it is opened" in (await api.refused(404, "GET", "clusters", "x", "dask", "status"))["message"]
    await api("POST", "clusters", "x", "dashboard", body={})
    assert "does not respond" in (await api.refused(503, "GET", "clusters", "x", "dask", "status"))["message"]


Stream = Callable[..., Awaitable[Any]]


@pytest.fixture
def stream(jp_serverapp: Any, http_server_client: AsyncHTTPClient, jp_http_port: int, jp_base_url: str) -> Stream:
    """Return a function that opens a page's WebSocket as a logged-in browser. ``change`` replaces headers."""

    async def stream(session: str, **change: str) -> Any:
        cookies = await login(http_server_client, jp_base_url, jp_serverapp.identity_provider.token)
        headers = {"Cookie": cookies, "Origin": f"http://127.0.0.1:{jp_http_port}"} | change
        url = f"ws://127.0.0.1:{jp_http_port}{jp_base_url}jupyter-dtf/api/{'/'.join(BASE)}/status/ws"
        return await websocket_connect(HTTPRequest(url, headers=headers), subprotocols=["bokeh", session])

    return stream


async def message_type(socket: Any) -> str:
    """Return the type of the next message. Bokeh sends it in three parts: header (with the type), metadata, content."""
    header, _, _ = [json.loads(await asyncio.wait_for(socket.read_message(), left_s())) for _ in range(3)]
    return str(header["msgtype"])


async def test_its_pages_and_its_stream(
    api: Api, services: Services, stream: Stream, jp_serverapp: Any, http_server_client: AsyncHTTPClient
) -> None:
    await api("POST", "clusters", body={"name": "board", "jobs": {"worker": 1}})
    await (await services.fleet()).ready("board")
    await api.refused(404, "GET", *BASE, "status")  # off until it is requested
    assert (await api("POST", "clusters", "board", "dashboard", body={}))["url"].endswith("/board/dask/status")

    page = await api("GET", *BASE, "status")
    assert "<title>Dask Diagnostic UI</title>" in page
    assert api.response.headers["Content-Type"].startswith("text/html")
    assert "Set-Cookie" not in api.response.headers or "bokeh" not in api.response.headers["Set-Cookie"].lower()
    files = re.findall(r'(?:src|href)="([^"#:]+\.(?:js|css))', page)
    assert files
    for file in files:  # all are below the page, wherever this server is
        assert not file.startswith("/"), file
        await api("GET", *BASE, *file.split("?")[0].split("/"))
    root = f"{jp_serverapp.base_url}jupyter-dtf/api/{'/'.join(BASE)}/"
    headers = {"Authorization": f"token {jp_serverapp.identity_provider.token}"}
    with pytest.raises(HTTPClientError) as caught:
        await http_server_client.fetch(root, headers=headers, follow_redirects=False)
    assert caught.value.response is not None
    assert caught.value.response.headers["Location"] == f"{root}status"
    assert "worker" in (await api("GET", *BASE, "info", "main", "workers.html"))
    # The route that fetches pages from other machines does not exist.
    with pytest.raises(HTTPClientError) as caught:
        await api("GET", *BASE, "proxy", "1", "127.0.0.1", "status")
    assert caught.value.code == 404

    (token,) = re.findall(r'"token":"([^"]+)"', page)
    socket = await stream(token)
    assert socket.selected_subprotocol == "bokeh"
    assert await message_type(socket) == "ACK"
    await socket.write_message(json.dumps({"msgid": "1", "msgtype": "PULL-DOC-REQ"}))
    for part in ("{}", "{}"):
        await socket.write_message(part)
    while (kind := await message_type(socket)) != "PULL-DOC-REPLY":
        assert kind == "PATCH-DOC"  # the page changes all the time
    socket.close()
    for change in ({"Origin": "https://elsewhere.example"}, {"Cookie": "no=cookie"}):
        with pytest.raises(HTTPClientError) as caught:
            await stream(token, **change)
        assert caught.value.code == 403
    await api("DELETE", "clusters", "board")
    await (await services.fleet()).gone("board")
