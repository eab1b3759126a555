from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError, HTTPResponse
from traitlets.config import Config

from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.handlers.base import SETTING
from jupyter_dtf.handlers.services import Services

from .fleet import MemoryFleet

Fetch = Callable[..., Awaitable[HTTPResponse]]
Post = Callable[[str, str], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class Api:
    """Requests to the extension's routes, as the browser sends them."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    async def __call__(self, method: str, *path: str, body: Any = None, raw: bytes | None = None, **params: Any) -> Any:
        """Return the body of the response, decoded if it is JSON."""
        response = await self._fetch(
            "jupyter-dtf", "api", *path, method=method, params=params, allow_nonstandard_methods=True,
            body=raw if raw is not None else None if body is None else json.dumps(body).encode(),
        )  # fmt: skip
        self.response = response
        if response.headers.get("Content-Type", "").startswith("application/json") and response.body:
            return json.loads(response.body)
        return response.body.decode()

    async def refused(self, status: int, method: str, *path: str, **arguments: Any) -> dict[str, Any]:
        """Return the ErrorInfo of a request that must be refused with this status."""
        with pytest.raises(HTTPClientError) as caught:
            await self(method, *path, **arguments)
        assert caught.value.code == status, caught.value.response and caught.value.response.body
        assert caught.value.response is not None
        error: dict[str, Any] = json.loads(caught.value.response.body)
        assert set(error) == {"message", "error", "field"}
        return error


@pytest.fixture
def jp_server_config() -> Config:
    return Config(
        {
            "ServerApp": {
                "jpserver_extensions": {"jupyter_dtf": True},
                "allow_unauthenticated_access": False,  # a route without authentication fails to load
            }
        }
    )


@pytest.fixture
def api(jp_fetch: Fetch) -> Api:
    return Api(jp_fetch)


@pytest.fixture
def post(http_server: Any, jp_http_port: int, jp_base_url: str, jp_auth_header: dict[str, str]) -> Post:
    """Return a function that posts a string to a route and returns the connection, which the test has to read and
    close.
    """

    async def post(path: str, text: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", jp_http_port)
        lines = [
            f"POST {jp_base_url}jupyter-dtf/api/{path} HTTP/1.1",
            "Host: localhost",
            f"Authorization: {jp_auth_header['Authorization']}",
            "Connection: close",
            f"Content-Length: {len(text.encode())}",
        ]
        writer.write("\r\n".join([*lines, "", text]).encode())
        return reader, writer

    return post


@pytest.fixture
def memory_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the server a MemoryFleet, which starts no clusters. Request this fixture before the server's fixtures."""
    monkeypatch.setattr("jupyter_dtf.backend.viewer.fleet.Fleet", MemoryFleet)


@pytest.fixture
def services(jp_serverapp: Any) -> Services:
    services: Services = jp_serverapp.web_app.settings[SETTING]
    return services


@pytest.fixture
def fleet(memory_fleet: None, services: Services, jp_asyncio_loop: Any) -> MemoryFleet:
    fleet: Any = jp_asyncio_loop.run_until_complete(services.fleet())
    return fleet  # type: ignore[no-any-return]


@pytest.fixture
def hub(fleet: MemoryFleet) -> Hub:
    return fleet.hub


@pytest.fixture
def connect(jp_ws_fetch: Callable[..., Any]) -> Iterator[Callable[[], Awaitable[Any]]]:
    """Return a function that opens the event stream. All streams are closed after the test."""
    sockets: list[Any] = []

    async def open_socket() -> Any:
        sockets.append(await jp_ws_fetch("jupyter-dtf", "api", "events"))
        return sockets[-1]

    yield open_socket
    for socket in sockets:
        socket.close()
