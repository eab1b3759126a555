"""The cluster process's link to its controller, which is reconnected if the controller is on another machine.

A proxy or the Kubernetes API may close a connection that goes through it while the runs continue. Events that happen in
the meantime arrive after reconnecting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ...errors import ClusterLost
from ..viewer.connections import Connection
from ..viewer.link import Link
from .viewer_streams import ARCHIVE

logger = logging.getLogger(__name__)

TRY_S = 30.0
"""How long to retry: shorter than the time after which an abandoned scheduler shuts itself down."""
AGAIN_S = 1.0


class HeldLink:
    """A ``Link`` to the controller. If the controller is on another machine, a lost connection is reopened.

    ``why_gone`` is given only in that case. ``why_gone()`` returns why the controller is gone for good, or an empty
    string if it is not known to be gone.
    """

    def __init__(
        self,
        connection: Connection,
        on_message: Callable[[dict[str, Any]], None],
        on_lost: Callable[[], None],
        why_gone: Callable[[], Awaitable[str]] | None,
    ) -> None:
        self._connection = connection
        self._on_message = on_message
        self._on_lost = on_lost
        self._why_gone = why_gone
        self._link: Link | None = None
        self._places: dict[str, int] = {}
        self._is_there = asyncio.Event()
        self._mending: asyncio.Task[None] | None = None
        self.is_over = False
        """Whether the link was closed, or is lost for good."""

    @classmethod
    async def open(
        cls,
        connection: Connection,
        on_message: Callable[[dict[str, Any]], None],
        on_lost: Callable[[], None],
        why_gone: Callable[[], Awaitable[str]] | None = None,
    ) -> HeldLink:
        """Open the link. Raises ClusterLost."""
        self = cls(connection, on_message, on_lost, why_gone)
        await self._open()
        return self

    async def request(self, operation: str, **message: Any) -> Any:
        """Send a request as ``Link.request`` does, but wait first if the link is being reconnected."""
        await self._is_there.wait()
        assert self._link is not None
        return await self._link.request(operation, **message)

    async def close(self) -> None:
        """Disconnect without calling ``on_lost``."""
        self.is_over = True
        if self._mending is not None:
            self._mending.cancel()
            await asyncio.gather(self._mending, return_exceptions=True)
        if self._link is not None:
            await self._link.close()

    async def _open(self) -> None:
        self._link = await Link.open(self._connection, self._take, self._broke, after=self._places, role=ARCHIVE)
        self._is_there.set()

    def _take(self, message: dict[str, Any]) -> None:
        if message["op"] == "event":
            self._places[message["run"]] = message["seq"]
        self._on_message(message)

    def _broke(self) -> None:
        if self._why_gone is None:
            self.is_over = True
            self._on_lost()
            return
        self._is_there.clear()
        self._mending = asyncio.create_task(self._mend(self._why_gone))

    async def _mend(self, why_gone: Callable[[], Awaitable[str]]) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + TRY_S
        while loop.time() < until:
            try:
                if await why_gone():
                    break
                await self._open()
                return
            except ClusterLost as error:
                logger.info("%s", error)
            except Exception:  # whatever the error is, the cluster process must not wait for this link forever
                logger.exception("The link to the controller could not be reopened, and is retried")
            await asyncio.sleep(AGAIN_S)
        self.is_over = True
        self._on_lost()
        self._is_there.set()  # waiting requests then raise ClusterLost
