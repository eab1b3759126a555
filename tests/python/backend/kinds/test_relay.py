"""Relays, local ports that lead to a remote scheduler: who can connect, and how connections end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
from distributed.core import rpc

from jupyter_dtf.backend.cluster.certificates import temporary_security
from jupyter_dtf.backend.kinds.dask_http import SilentScheduler
from jupyter_dtf.backend.kinds.relay import Relay, Streams


@contextlib.asynccontextmanager
async def scheduler_elsewhere() -> AsyncIterator[tuple[SilentScheduler, Relay, str, Any]]:
    """Start a scheduler with its own certificate, and a relay. Yields both, the relay's address and its certificate."""
    ours, theirs = temporary_security(), temporary_security()
    async with SilentScheduler(dashboard=False, port=0, host="127.0.0.1", protocol="tls", security=theirs) as scheduler:
        host, port = scheduler.address.removeprefix("tls://").split(":")
        context = theirs.get_connection_args("client")["ssl_context"]
        relay = Relay(ours, lambda: asyncio.open_connection(host, int(port), ssl=context))
        yield scheduler, relay, await relay.start(), ours
        await relay.close()


async def test_who_has_the_certificate_gets_through() -> None:
    async with scheduler_elsewhere() as (scheduler, _, address, security):
        assert address.startswith("tls://127.0.0.1:")
        async with rpc(address, connection_args=security.get_connection_args("client")) as asking:
            assert (await asking.identity())["id"] == scheduler.id
            long = "x" * (3 << 20)
            assert await asking.echo(data=long) == long


async def test_nobody_else_does() -> None:
    async def there() -> Streams:
        pytest.fail("a stranger got in")

    relay = Relay(temporary_security(), there)
    port = int((await relay.start()).rpartition(":")[2])
    stranger = temporary_security().get_connection_args("client")["ssl_context"]
    stranger.verify_mode = ssl.CERT_NONE

    def read() -> bytes:
        with socket.create_connection(("127.0.0.1", port)) as plain, stranger.wrap_socket(plain) as wrapped:
            try:
                return bytes(wrapped.recv(1))
            except OSError:
                return b""

    assert await asyncio.to_thread(read) == b""
    assert not relay._open
    await relay.close()


async def test_what_ends_on_one_side_ends_on_the_other() -> None:
    security = temporary_security()
    over = asyncio.Event()

    async def there() -> Streams:
        here, away = await _pair()

        async def answer() -> None:
            assert await here[0].read() == b""  # the client has disconnected
            here[1].transport.abort()
            over.set()

        answering.append(asyncio.create_task(answer()))
        here[1].write(b"hello")
        return away

    answering: list[asyncio.Task[None]] = []
    relay = Relay(security, there)
    context = security.get_connection_args("client")["ssl_context"]
    port = int((await relay.start()).rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    assert await reader.readexactly(5) == b"hello"
    writer.transport.abort()
    await over.wait()
    await relay.close()


async def test_a_scheduler_that_is_not_there_is_a_connection_that_ends() -> None:
    async def nobody() -> Streams:
        raise ConnectionRefusedError

    security = temporary_security()
    relay = Relay(security, nobody)
    context = security.get_connection_args("client")["ssl_context"]
    port = int((await relay.start()).rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""
    writer.transport.abort()
    await relay.close()


async def _pair() -> tuple[Streams, Streams]:
    """Return both ends of a connection."""
    accepted: asyncio.Future[Streams] = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda *streams: accepted.set_result(streams), "127.0.0.1", 0)
    away = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
    here = await accepted
    server.close()
    return here, away
