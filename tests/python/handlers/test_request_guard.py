"""Tests of requests that are refused before they are read, and of users who may only read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from jupyter_server.auth import Authorizer

from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.handlers.openapi import OPERATIONS
from jupyter_dtf.handlers.routes import ROUTES
from jupyter_dtf.schema.run import RunState

from ..patience import left_s
from .conftest import Api, Post
from .fleet import MemoryFleet
from .test_runs import feed
from .test_socket import read

Request = Callable[..., Awaitable[tuple[int, dict[str, str], bytes]]]

EVERY = sorted([*OPERATIONS, ("/nothing", "post")])
GIGABYTE = 1 << 30


def filled(path: str) -> str:
    return path.replace("{name}", "x").replace("{run_id}", "x").replace("{path}", "status")


@pytest.fixture
def request_headers_only(http_server: Any, jp_http_port: int, jp_base_url: str, jp_auth_header: Any) -> Request:
    """Return a function that sends a request's headers, and the beginning of a body if one is given, and returns the
    answer. With ``closed``, the server must also close the connection, because it reads no more of the body."""

    async def request(
        method: str, path: str, *headers: str, body: bytes = b"", token: str = "", closed: bool = False
    ) -> tuple[int, dict[str, str], bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", jp_http_port)
        try:
            lines = [
                f"{method.upper()} {jp_base_url}jupyter-dtf/api{path} HTTP/1.1",
                "Host: localhost",
                f"Authorization: {token or jp_auth_header['Authorization']}",
                *headers,
            ]
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), left_s())
            first, *rest = head.decode().split("\r\n")
            named = dict(line.split(": ", 1) for line in rest if line)
            answer = await asyncio.wait_for(reader.readexactly(int(named["Content-Length"])), left_s())
            if closed:
                assert await asyncio.wait_for(reader.read(), left_s()) == b""
        finally:
            writer.close()
        return int(first.split()[1]), named, answer

    return request


def error_of(answer: bytes) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(answer)
    assert set(error) == {"message", "error", "field"}
    return error


LENGTH = f"Content-Length: {GIGABYTE}"
CHUNKED = "Transfer-Encoding: chunked"


@pytest.mark.parametrize("length", [LENGTH, CHUNKED, f"{LENGTH}\r\nExpect: 100-continue"])
async def test_without_a_token_no_byte_of_the_body_is_waited_for(
    fleet: MemoryFleet, request_headers_only: Request, length: str
) -> None:
    for path, method in EVERY:
        status, _, answer = await request_headers_only(
            method, filled(path), length, token="token wrong", closed=length != CHUNKED
        )
        assert status == 403, (method, path)
        assert error_of(answer)["message"]
    assert fleet.asked == []


async def test_a_body_is_at_most_what_its_route_needs(fleet: MemoryFleet, request_headers_only: Request) -> None:
    for path, method in EVERY:
        handler: Any = ROUTES.get(path)
        limit = 0 if method == "get" else handler.max_body_bytes if handler else 1 << 10
        assert limit <= (32 << 20 if path.startswith("/designs/") else 1 << 20)
        status, _, answer = await request_headers_only(method, filled(path), f"Content-Length: {limit + 1}")
        assert status == 413, (method, path)
        assert error_of(answer)["message"] == f"The body must have at most {limit} bytes, got {limit + 1}"
        status, _, _ = await request_headers_only(method, filled(path), f"Content-Length: {'9' * 400}", closed=True)
        assert status == 413, (method, path)
    assert fleet.asked == []


@pytest.mark.parametrize(("path", "method"), [("/clusters/x", "patch"), ("/runs", "get"), ("/events", "get")])
async def test_a_body_of_unknown_length_ends_at_the_limit(
    fleet: MemoryFleet, request_headers_only: Request, path: str, method: str
) -> None:
    """The body is longer than the limit, and its last chunk never arrives."""
    chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    status, _, answer = await request_headers_only(method, path, CHUNKED, body=chunk)
    assert status == 413
    assert "and more" in error_of(answer)["message"]
    assert fleet.asked == []


async def test_a_body_of_unknown_length_is_read_within_the_limit(
    fleet: MemoryFleet, request_headers_only: Request
) -> None:
    body = json.dumps({"name": "chunked"}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    status, _, answer = await request_headers_only("POST", "/clusters", CHUNKED, "Connection: close", body=chunks)
    assert status == 201
    assert json.loads(answer)["name"] == "chunked"


async def test_who_is_refused_may_send_more_than_is_wanted_but_not_for_ever(
    fleet: MemoryFleet, request_headers_only: Request
) -> None:
    """A proxy that cannot deliver a small body would report the server as down. An endless body is cut off."""
    small = b"x" * 5000
    status, _, _ = await request_headers_only(
        "POST", "/clusters", "Content-Length: 5000", "Connection: close", body=small, token="token wrong", closed=True
    )
    assert status == 403
    endless = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    status, _, _ = await request_headers_only(
        "POST", "/clusters", CHUNKED, body=3 * endless, token="token wrong", closed=True
    )
    assert status == 403


async def test_a_connection_on_which_a_request_was_refused_goes_on(
    fleet: MemoryFleet, http_server: Any, jp_http_port: int, jp_base_url: str
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", jp_http_port)
    for body in (b"", b"x" * 2000, b""):
        lines = [
            f"POST {jp_base_url}jupyter-dtf/api/clusters HTTP/1.1",
            "Host: localhost",
            f"Content-Length: {len(body)}",
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), left_s())).decode()
        assert head.startswith("HTTP/1.1 403")
        (length,) = (line.split(": ")[1] for line in head.split("\r\n") if line.startswith("Content-Length"))
        error_of(await reader.readexactly(int(length)))
    writer.close()


async def test_what_is_no_route_is_not_found(fleet: MemoryFleet, api: Api) -> None:
    assert "/jupyter-dtf/api/nothing" in (await api.refused(404, "POST", "nothing", body={}))["message"]
    assert (await api.refused(405, "POST", "runs", body={}))["message"] == "Method Not Allowed"


class MayLook(Authorizer):
    """An authorizer that permits only reading."""

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        return action == "read"


class TestWhoMayLook:
    @pytest.fixture
    def jp_server_config(self, jp_server_config: Any) -> Any:
        jp_server_config.ServerApp.authorizer_class = MayLook
        return jp_server_config

    async def test_sees_clusters_and_runs_as_they_move(
        self, fleet: MemoryFleet, hub: Hub, api: Api, connect: Callable[[], Awaitable[Any]]
    ) -> None:
        feed(hub, end=RunState.RUNNING)
        assert (await api("GET", "status"))["version"]
        assert [run["id"] for run in await api("GET", "runs")] == ["r1"]
        assert await api("GET", "clusters") == []
        socket = await connect()
        assert (await read(socket, "clusters"))["clusters"] == []
        assert [run["id"] for run in (await read(socket, "runs"))["runs"]] == ["r1"]
        await socket.write_message(json.dumps({"type": "subscribe", "run": "r1"}))
        assert (await read(socket, "events"))["events"]
        assert (await read(socket, "series"))["frames"]

    async def test_changes_nothing(self, fleet: MemoryFleet, api: Api) -> None:
        for path, method in EVERY:
            if method != "get":
                error = await api.refused(403, method.upper(), *filled(path).strip("/").split("/"), body={})
                assert error["message"] == "You are not permitted to change the clusters and runs of this server"
        assert fleet.asked == []


async def test_a_request_that_is_given_up_midway_is_forgotten(fleet: MemoryFleet, post: Post, api: Api) -> None:
    _, writer = await post("clusters", "")
    writer.write(b"x")
    writer.close()
    await writer.wait_closed()
    assert await api("GET", "clusters") == []
