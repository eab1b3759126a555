"""The viewer's side of ``program_transfer``: sends a large program to a cluster by the shortest available route."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any

from distributed.comm import connect
from distributed.comm.core import Comm

from ... import errors
from ...errors import ClusterLost, DtfError
from ...schema.operations import scoped
from ...schema.payload import Packed
from ..machine import shared_directory
from .connections import Connection
from .link import CONNECT_TIMEOUT_S, arguments_of

logger = logging.getLogger(__name__)

SENT_APART_BYTES = 1 << 20
"""Programs larger than this are sent over a separate connection; smaller ones are part of the request."""
_WRITTEN_BYTES = 32 << 20
"""The number of bytes written at a time to a directory that the cluster can access."""
_SENT_BYTES = 2 << 20
_ON_THE_WAY = 8
"""The maximum number of chunks that have been sent but not yet acknowledged."""


class Sending:
    """The transfer of one program: call ``start``, then ``finish``."""

    def __init__(self, connection: Connection, program: Packed) -> None:
        self._connection = connection
        self._program = program
        self._places: list[str] = []
        self._comm: Comm | None = None

    async def start(self, request: bytes) -> dict[str, Any]:
        """Ask the cluster to accept the run. Returns the run's descriptor as plain data.

        Raises ClusterLost, or the controller's error.
        """
        op = scoped("dtf_send", self._connection.scope)
        message = {"op": op, "request": request, "size": self._program.size, "reply": False}
        try:
            self._comm = await connect(
                self._connection.address, timeout=CONNECT_TIMEOUT_S, **arguments_of(self._connection)
            )
            await self._comm.write(message)
            answer = await self._comm.read()
        except OSError as error:
            raise ClusterLost(f"The cluster {self._connection.name} does not respond: {error}") from None
        if "ok" not in answer:
            raise getattr(errors, answer["error"], DtfError)(answer["message"])
        self._places = answer["places"]
        info: dict[str, Any] = answer["ok"]
        return info

    async def finish(self, is_over: Callable[[], bool]) -> None:
        """Send the whole program, or stop once ``is_over()`` is true.

        Errors of the transfer are not raised: the run reports them when it ends.
        """
        comm = self._comm
        assert comm is not None
        try:
            if not await self._share(comm, is_over) and not is_over():
                await self._send(comm, is_over)
        except OSError as error:  # the run has been stopped, or the cluster is lost: both are reported elsewhere
            logger.debug("The program could not be sent: %s", error)
        finally:
            comm.abort()

    async def _share(self, comm: Comm, is_over: Callable[[], bool]) -> bool:
        """Write the program to a directory that the cluster can access too, unless the run ends first.

        Returns False if no such directory is accessible and has enough space.
        """
        for index, directory in enumerate(self._places):
            if not (word := await asyncio.to_thread(shared_directory.read_word, directory)):
                continue
            try:
                descriptor = shared_directory.create(directory)
            except OSError:
                continue
            done = 0
            try:
                for chunk in self._program.chunks(_WRITTEN_BYTES):
                    if is_over():
                        return True
                    await asyncio.to_thread(shared_directory.write, descriptor, chunk)
                    done += len(chunk)
                    await comm.write({"done": done})
            except OSError as error:
                if comm.closed():
                    raise
                logger.debug("The program could not be written to %s: %s", directory, error)
                shared_directory.discard(directory)
                continue
            finally:
                os.close(descriptor)
            await comm.write({"at": index, "word": word})
            await comm.read()
            return True
        return False

    async def _send(self, comm: Comm, is_over: Callable[[], bool]) -> None:
        waiting = 0
        for chunk in self._program.chunks(_SENT_BYTES):
            if is_over():
                return
            await comm.write({"data": bytes(chunk)})
            waiting += 1
            while waiting > _ON_THE_WAY:
                waiting -= 1
                if "ok" not in await comm.read():
                    return
        while waiting and "ok" in await comm.read():
            waiting -= 1
