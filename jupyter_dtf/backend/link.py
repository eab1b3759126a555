"""A viewer's connection to one cluster's Controller: requests, and the stream of everything that happens."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .. import errors
from ..errors import ClusterLost, DtfError
from .connections import Connection

if TYPE_CHECKING:
    from distributed import Security
    from distributed.comm import Comm

CONNECT_TIMEOUT_S = 10.0


def security_of(connection: Connection) -> Security:
    """Dask's TLS settings for a cluster: one certificate, made for it, for every role."""
    from distributed import Security

    roles = {
        f"tls_{role}_{part}": getattr(connection, part)
        for role in ("client", "scheduler", "worker")
        for part in ("cert", "key")
    }
    return Security(require_encryption=True, tls_ca_file=connection.ca, **roles)


class Link:
    """An open connection. ``on_message`` gets each message of the stream, ``on_lost`` is called once if it breaks."""

    def __init__(
        self,
        name: str,
        stream: Comm,
        rpc: Any,
        on_message: Callable[[dict[str, Any]], None],
        on_lost: Callable[[], None],
    ) -> None:
        self.name = name
        self._stream = stream
        self._rpc = rpc
        self._on_message = on_message
        self._on_lost = on_lost
        self._reader = asyncio.get_running_loop().create_task(self._read())

    @classmethod
    async def open(
        cls,
        connection: Connection,
        on_message: Callable[[dict[str, Any]], None],
        on_lost: Callable[[], None],
        *,
        after: Mapping[str, int] | None = None,
        role: str = "viewer",
    ) -> Link:
        """Attach to a running cluster; ``after`` is the last sequence number seen of each run.

        Raises ClusterLost if it does not answer.
        """
        from distributed.comm import connect
        from distributed.core import rpc

        arguments = security_of(connection).get_connection_args("client")
        try:
            stream = await connect(connection.address, timeout=CONNECT_TIMEOUT_S, **arguments)
            await stream.write({"op": "dtf_attach", "role": role, "after": dict(after or {}), "reply": False})
        except (OSError, asyncio.TimeoutError, ssl.SSLError) as error:
            raise ClusterLost(
                f"The cluster {connection.name} does not answer at {connection.address}: {error}"
            ) from None
        requests = rpc(connection.address, connection_args=arguments, timeout=CONNECT_TIMEOUT_S)
        return cls(connection.name, stream, requests, on_message, on_lost)

    async def request(self, operation: str, **message: Any) -> Any:
        """Ask the controller (``submit``, ``stop_run``, ``scale``...). Raises what it raised, or ClusterLost."""
        try:
            answer = await getattr(self._rpc, f"dtf_{operation}")(**message)
        except OSError as error:
            raise ClusterLost(f"The cluster {self.name} does not answer: {error}") from None
        if "ok" in answer:
            return answer["ok"]
        kind = getattr(errors, answer["error"], DtfError)
        raise kind(answer["message"])

    async def close(self) -> None:
        """Leave; ``on_lost`` is not called."""
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader
        self._stream.abort()
        await self._rpc.close_rpc()

    async def _read(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                for message in await self._stream.read():
                    self._on_message(message)
        await self._rpc.close_rpc()
        self._on_lost()
