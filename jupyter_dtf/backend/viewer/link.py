"""A viewer's connection to the Controller of one cluster: requests, and the stream of all events."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ... import errors
from ...errors import ClusterLost, DtfError, Unavailable
from ...schema import protocol
from ...schema.base import to_plain
from ...schema.operations import ScopedRpc, scoped
from .connections import Connection

if TYPE_CHECKING:
    from distributed import Security
    from distributed.comm import Comm

CONNECT_TIMEOUT_S = 10.0
PING_S = 1.0
SILENT_S = 3.0
"""A cluster that has not responded for this long is shown as not responding."""
GIVE_UP_S = 15.0
"""If a cluster has not responded for this long, requests fail, and stopping it kills its processes directly. If its
process is known to be stopped (SIGSTOP), new requests and stopping wait only for ``SILENT_S``."""

_OF_ARGUMENTS = re.compile(r"unexpected keyword argument|missing \d+ required|got multiple values")
"""Matches Python's messages about a call with arguments that the function does not take."""

logger = logging.getLogger(__name__)


class UnknownOperation(Unavailable):
    """The cluster's version does not know an operation, or one of its arguments."""


def not_answering(name: str, silent_s: float) -> ClusterLost:
    """Return the error for requests to a cluster that does not respond."""
    return ClusterLost(
        f"The cluster {name} has not responded for {silent_s:.0f} s. It is busy or frozen: wait, or end it with "
        f"`jupyter dtf stop {name}` or Stop on its card"
    )


def security_of(connection: Connection) -> Security:
    """Return Dask's TLS settings for a cluster: one certificate for all roles, or none if its scheduler uses no TLS."""
    from distributed import Security

    if not connection.ca:
        return Security(require_encryption=False)
    roles = {
        f"tls_{role}_{part}": getattr(connection, part)
        for role in ("client", "scheduler", "worker")
        for part in ("cert", "key")
    }
    return Security(require_encryption=True, tls_ca_file=connection.ca, **roles)


_known: dict[tuple[str, str], dict[str, Any]] = {}


def arguments_of(connection: Connection) -> dict[str, Any]:
    """Return the arguments for opening a connection. Cached, because OpenSSL needs certificates in files on disk."""
    key = connection.address, connection.cert
    if key not in _known:
        while len(_known) >= 16:
            del _known[next(iter(_known))]
        _known[key] = security_of(connection).get_connection_args("client")
    return _known[key]


class Link:
    """An open connection to a cluster.

    ``on_message`` is called with each message of the stream; ``on_lost`` is called once if the connection breaks.
    """

    def __init__(
        self,
        name: str,
        stream: Comm,
        rpc: Any,
        on_message: Callable[[dict[str, Any]], None],
        on_lost: Callable[[], None],
    ) -> None:
        self.name = name
        self.refusal = ""
        """Why the stream cannot be used: the cluster and this version have no protocol in common. Otherwise empty."""
        self._stream = stream
        self._rpc = rpc
        self._on_message = on_message
        self._on_lost = on_lost
        loop = asyncio.get_running_loop()
        self._heard = loop.time()
        self._reader = loop.create_task(self._read())
        self._pinging = loop.create_task(self._ping())

    @property
    def unheard_s(self) -> float:
        """The number of seconds since the last message from the cluster."""
        return asyncio.get_running_loop().time() - self._heard

    @property
    def silent_s(self) -> float:
        """The number of seconds since the last message from the cluster, or 0 while that is within normal limits."""
        return self.unheard_s if self.unheard_s > SILENT_S else 0.0

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
        """Attach to a running cluster.

        Args:
            connection: The cluster.
            on_message: Called with each message of the stream.
            on_lost: Called once if the connection breaks.
            after: The last sequence number seen, keyed by run.
            role: ``viewer``, or ``archive`` for the cluster process itself.

        Returns:
            The open link.

        Raises:
            ClusterLost: If the cluster does not respond.
        """
        from distributed.comm import connect
        from distributed.core import rpc

        try:
            arguments = arguments_of(connection)
            stream = await connect(connection.address, timeout=CONNECT_TIMEOUT_S, **arguments)
            speech = to_plain(protocol.ours())
            op = scoped("dtf_attach", connection.scope)
            await stream.write({"op": op, "role": role, "after": dict(after or {}), "speech": speech, "reply": False})
        except (OSError, asyncio.TimeoutError, ssl.SSLError) as error:
            raise ClusterLost(
                f"The cluster {connection.name} does not respond at {connection.address}: {error}"
            ) from None
        requests = rpc(connection.address, connection_args=arguments, timeout=CONNECT_TIMEOUT_S)
        return cls(connection.name, stream, ScopedRpc(requests, connection.scope), on_message, on_lost)

    async def request(self, operation: str, **message: Any) -> Any:
        """Send a request to the controller (``submit``, ``stop_run``, ``scale``...) and return the result.

        While the cluster responds to pings, there is no time limit.

        Raises:
            ClusterLost: If the cluster does not respond.
            UnknownOperation: If the cluster's version does not know the operation, or an argument.
            DtfError: Any other error that the controller raised.
        """
        call = asyncio.ensure_future(getattr(self._rpc, f"dtf_{operation}")(**message))
        try:
            while not (await asyncio.wait({call}, timeout=PING_S / 2))[0]:
                if self.silent_s > GIVE_UP_S:
                    raise not_answering(self.name, self.silent_s)
            answer = call.result()
        except OSError as error:
            raise ClusterLost(f"The cluster {self.name} does not respond: {error}") from None
        except msgspec.ValidationError as error:  # the cluster's version reports unknown arguments only in this way
            raise UnknownOperation(self._too_new(operation, f"does not accept all of it: {error}")) from None
        except TypeError as error:
            if not _OF_ARGUMENTS.search(str(error)):
                raise
            raise UnknownOperation(self._too_new(operation, f"takes different arguments: {error}")) from None
        finally:
            if not call.done():
                call.cancel()
        if answer is None:  # Dask's reply if it has no handler of that name
            raise UnknownOperation(self._too_new(operation, "does not know it"))
        if "ok" in answer:
            return answer["ok"]
        kind = getattr(errors, answer["error"], DtfError)
        raise kind(answer["message"])

    def _too_new(self, operation: str, why: str) -> str:
        return (
            f"The cluster {self.name} cannot process the operation {operation!r} as jupyter_dtf "
            f"{protocol.ours().release} requests it: its version {why}. To use it, close and restart the cluster"
        )

    async def close(self) -> None:
        """Disconnect without calling ``on_lost``."""
        self._pinging.cancel()
        self._reader.cancel()
        await asyncio.gather(self._pinging, self._reader, return_exceptions=True)
        self._stream.abort()
        await self._rpc.close_rpc()

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while not self.refusal:
                for message in await self._stream.read():
                    self._heard = loop.time()
                    if message["op"] == "speech":  # always the first message
                        self.refusal = protocol.cluster_refusal(self.name, protocol.theirs(message["speech"]))
                    if self.refusal or message["op"] == "speech":
                        continue
                    try:
                        self._on_message(message)
                    except Exception:  # the next message may report the end of another run
                        logger.exception("A message from the cluster %s could not be processed", self.name)
                await asyncio.sleep(0)  # a long log arrives in many batches: let other tasks run in between
        except asyncio.CancelledError:
            raise
        except OSError:
            pass
        except Exception:  # the data received is not a message
            logger.exception("The stream of the cluster %s cannot be read", self.name)
        self._pinging.cancel()
        self._stream.abort()
        await self._rpc.close_rpc()
        self._on_lost()

    async def _ping(self) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):  # the reader notices the end of the stream
            while True:
                before = loop.time()
                await asyncio.sleep(PING_S)
                late = loop.time() - before - PING_S
                if late > PING_S:  # this process itself was delayed and has not read messages
                    self._heard += late
                await self._stream.write({"op": "ping"})
