"""A local port through which clients on this machine reach a remote scheduler, over any kind of connection.

The port is on the loopback interface, and accepts only clients with the cluster's certificate. The connections to the
scheduler are separate: the relay's creator opens them, with TLS and certificates of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

logger = logging.getLogger(__name__)

HERE = "127.0.0.1"
_PIECE_BYTES = 256 << 10

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Relay:
    """Forwards connections between a local port and a scheduler.

    ``security`` determines which peers may connect. ``open_there()`` connects to the scheduler, or raises OSError.
    """

    def __init__(self, security: Any, open_there: Callable[[], Awaitable[Streams]]) -> None:
        self._context: ssl.SSLContext = security.get_listen_args("scheduler")["ssl_context"]
        self._open_there = open_there
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        """Start listening. Returns the address in Dask's format."""
        self._server = await asyncio.start_server(self._serve, HERE, 0, ssl=self._context)
        return f"tls://{HERE}:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        for _ in range(3):  # the socket of an aborted connection is closed in a later iteration of the loop
            await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        writers = [writer]
        try:
            there, back = await self._open_there()
            writers.append(back)
            pumps = [asyncio.create_task(_pump(reader, back)), asyncio.create_task(_pump(there, writer))]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except (OSError, asyncio.TimeoutError) as error:
            logger.warning("The scheduler could not be reached: %s", error)
        except asyncio.CancelledError:  # from `close`; nothing else awaits this task
            pass
        finally:
            self._open.discard(task)
            for each in writers:
                with contextlib.suppress(OSError):
                    each.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward data until either side closes the connection."""
    with contextlib.suppress(OSError):
        while data := await reader.read(_PIECE_BYTES):
            writer.write(data)
            await writer.drain()
