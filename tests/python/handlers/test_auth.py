"""Tests of who may call each route. The routes are those of the OpenAPI file, so that none is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from jupyter_server.auth import Authorizer
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from jupyter_dtf.handlers.openapi import OPERATIONS
from jupyter_dtf.handlers.routes import PREFIX

from .conftest import Api
from .fleet import MemoryFleet

EVERY = sorted(OPERATIONS)
REST = [(path, method) for path, method in EVERY if path != "/events"]


def parts(path: str) -> list[str]:
    return [
        *PREFIX.strip("/").split("/"),
        *path.replace("{name}", "x").replace("{run_id}", "x").replace("{path}", "x").strip("/").split("/"),
    ]


class Asked(Authorizer):
    """An authorizer that refuses everything and records what it was asked."""

    asked: list[tuple[str, str]] = []

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        if resource == "jupyter_dtf":
            self.asked.append((action, resource))
        return False


@pytest.mark.parametrize(("path", "method"), EVERY)
async def test_without_a_token_nothing_is_answered(
    fleet: MemoryFleet, jp_fetch: Callable[..., Any], path: str, method: str
) -> None:
    with pytest.raises(HTTPClientError) as caught:
        await jp_fetch(
            *parts(path),
            method=method.upper(),
            headers={"Authorization": "token wrong"},
            allow_nonstandard_methods=True,
            follow_redirects=False,
        )
    assert caught.value.code == 403
    assert fleet.asked == []


class TestUnauthorized:
    @pytest.fixture
    def jp_server_config(self, jp_server_config: Any) -> Any:
        Asked.asked = []
        jp_server_config.ServerApp.authorizer_class = Asked
        return jp_server_config

    @pytest.mark.parametrize(("path", "method"), REST)
    async def test_a_user_without_permission_is_refused(
        self, fleet: MemoryFleet, jp_fetch: Callable[..., Any], path: str, method: str
    ) -> None:
        with pytest.raises(HTTPClientError) as caught:
            await jp_fetch(*parts(path), method=method.upper(), allow_nonstandard_methods=True)
        assert caught.value.code == 403
        assert Asked.asked == [("read" if method == "get" else "write", "jupyter_dtf")]
        assert fleet.asked == []

    async def test_the_socket_is_refused(self, fleet: MemoryFleet, jp_ws_fetch: Callable[..., Any]) -> None:
        with pytest.raises(HTTPClientError) as caught:
            await jp_ws_fetch(*parts("/events"))
        assert caught.value.code == 403
        assert Asked.asked == [("read", "jupyter_dtf")]


async def test_the_socket_wants_a_token(fleet: MemoryFleet, jp_ws_fetch: Callable[..., Any]) -> None:
    with pytest.raises(HTTPClientError) as caught:
        await jp_ws_fetch(*parts("/events"), headers={"Authorization": "token wrong"})
    assert caught.value.code == 403


async def login(client: AsyncHTTPClient, base_url: str, token: str) -> str:
    """Log in, and return the cookies of the browser."""
    page = await client.fetch(f"{base_url}api/status?token={token}")
    cookies = [cookie.split(";")[0] for cookie in page.headers.get_list("Set-Cookie")]
    assert any(cookie.startswith("username-") for cookie in cookies)
    return "; ".join(cookies)


async def test_the_socket_is_for_pages_of_this_server(
    fleet: MemoryFleet, jp_serverapp: Any, http_server_client: AsyncHTTPClient, jp_base_url: str, jp_http_port: int
) -> None:
    cookies = await login(http_server_client, jp_base_url, jp_serverapp.identity_provider.token)
    url = f"ws://127.0.0.1:{jp_http_port}{jp_base_url}jupyter-dtf/api/events"
    headers = {"Cookie": cookies, "Origin": "https://elsewhere.example"}
    with pytest.raises(HTTPClientError) as caught:
        await websocket_connect(HTTPRequest(url, headers=headers))
    assert caught.value.code == 403
    headers["Origin"] = f"http://127.0.0.1:{jp_http_port}"
    socket = await websocket_connect(HTTPRequest(url, headers=headers))
    assert '"hello"' in str(await socket.read_message())
    socket.close()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_browser_without_the_xsrf_token_changes_nothing(
    fleet: MemoryFleet, jp_serverapp: Any, http_server_client: AsyncHTTPClient, jp_base_url: str, method: str
) -> None:
    """Other sites can make a logged-in browser send its cookie, but do not know the XSRF token."""
    headers = {"Cookie": await login(http_server_client, jp_base_url, jp_serverapp.identity_provider.token)}
    logged_in = await http_server_client.fetch(f"{jp_base_url}jupyter-dtf/api/clusters", headers=headers)
    assert logged_in.code == 200
    paths = {"POST": "clusters", "PUT": "templates/x", "PATCH": "clusters/x", "DELETE": "clusters/x"}
    with pytest.raises(HTTPClientError) as caught:
        await http_server_client.fetch(
            f"{jp_base_url}jupyter-dtf/api/{paths[method]}",
            method=method,
            headers=headers,
            body=b"{}" if method != "DELETE" else None,
            allow_nonstandard_methods=True,
        )
    assert caught.value.code == 403
    assert caught.value.response is not None
    assert b"_xsrf" in caught.value.response.body
    assert fleet.asked == []


async def test_with_the_token_the_same_request_is_followed(fleet: MemoryFleet, api: Api) -> None:
    assert (await api("POST", "clusters", body={}))["name"] == "local-1"
