"""Connects the kind ``address`` to a scheduler that somebody else runs, and checks the scheduler's versions."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, cast

from distributed import Security
from distributed.core import rpc
from distributed.versions import get_versions

from ..._version import __version__
from ...errors import InvalidInput, Unavailable
from ...schema.operations import LEAVE, scoped

logger = logging.getLogger(__name__)

CONNECT_S = 5.0
LEAVE_S = 6.0
"""The timeout for the scheduler's cleanup. It exceeds the time after which the scheduler's controller reports workers
that do not respond."""
PACKAGE = "jupyter_dtf"
_COMPARED = {"python": "Python", "dask": "Dask", "distributed": "distributed", PACKAGE: PACKAGE}


class AddressCluster:
    """A connection to a scheduler that somebody else runs, with the attributes of Dask's ``Cluster`` that the cluster
    process uses.
    """

    def __init__(self, address: str, security: Security, scope: str) -> None:
        self.scheduler_address = address
        self.security = security
        self.scheduler_comm = rpc(address, connection_args=security.get_connection_args("client"), timeout=CONNECT_S)
        self._scope = scope
        self._has_left = False

    async def leave(self) -> None:
        """Remove everything that this cluster added to the scheduler and its workers, if the scheduler is reachable."""
        if self._has_left:
            return
        self._has_left = True
        with contextlib.suppress(OSError, asyncio.TimeoutError, InvalidInput):
            await _look(self.scheduler_address)
            answer = await asyncio.wait_for(getattr(self.scheduler_comm, scoped(LEAVE, self._scope))(), LEAVE_S)
            if answer and (left := answer.get("ok")):
                logger.warning("The scheduler will clean up these workers once they respond again: %s", left)

    async def close(self) -> None:
        await self.leave()
        await self.scheduler_comm.close_rpc()


async def connect_to(address: str, files: Sequence[str], scope: str) -> AddressCluster:
    """Connect to a scheduler and compare its versions with those of this process.

    Args:
        address: The scheduler's address.
        files: The paths of the certificate authority, the certificate and its key; empty if not given.
        scope: The suffix that distinguishes the names of this cluster's operations on the scheduler from others.

    Raises:
        InvalidInput: If the scheduler cannot be reached, or the certificates cannot be used.
        Unavailable: If the server does not respond like a Dask scheduler, or if its versions differ from those here.
    """
    security = _security(address, files)
    await _look(address)
    cluster = AddressCluster(address, security, scope)
    try:
        _check_versions(address, await _versions(cluster))
    except BaseException:
        await cluster.scheduler_comm.close_rpc()
        raise
    return cluster


def _security(address: str, files: Sequence[str]) -> Security:
    if address.startswith("tcp://"):
        return Security(require_encryption=False)
    given = dict(zip(("tls_ca_file", "tls_client_cert", "tls_client_key"), files, strict=False))
    security: Any = Security(require_encryption=True, **given)  # files not given come from Dask's configuration
    if not (security.tls_ca_file and security.tls_client_cert and security.tls_client_key):
        raise InvalidInput(
            "A scheduler at a tls:// address needs certificates, and Dask's configuration has none: give the files of "
            "the certificate authority, the certificate and its key",
            field="options.ca_file",
        )
    try:
        security.get_connection_args("client")
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(f"The certificates cannot be used: {error}", field="options.cert_file") from None
    return cast(Security, security)


async def _look(address: str) -> None:
    """Raise InvalidInput if nothing listens at the address: Dask itself would keep retrying without an error."""
    host, _, port = address.split("://", 1)[1].rpartition(":")
    try:
        connecting = asyncio.open_connection(host.strip("[]"), int(port))
        _, writer = await asyncio.wait_for(connecting, CONNECT_S)
        writer.close()
        await writer.wait_closed()
    except (OSError, asyncio.TimeoutError) as error:
        raise InvalidInput(
            f"No scheduler can be reached at {address}: {_refusal(error)}", field="options.address"
        ) from None


def _refusal(error: BaseException) -> str:
    if isinstance(error, asyncio.TimeoutError):
        return f"no response within {CONNECT_S:.0f} s"
    number = getattr(error, "errno", None)  # asyncio's message says only that the call failed
    return os.strerror(number) if number and number > 0 else str(error)


async def _versions(cluster: AddressCluster) -> dict[str, Any]:
    what = f"The server at {cluster.scheduler_address} does not respond like a Dask scheduler"
    try:
        return await asyncio.wait_for(_ask_versions(cluster), CONNECT_S + 1)
    except asyncio.TimeoutError:
        raise Unavailable(f"{what} within {CONNECT_S + 1:.0f} s") from None
    except Exception as error:  # anything may be listening there
        raise Unavailable(f"{what}: {_why(error)}") from None


async def _ask_versions(cluster: AddressCluster) -> dict[str, Any]:
    try:
        answer = await cluster.scheduler_comm.versions(packages=[PACKAGE])
    except (TypeError, ValueError):  # old versions of Dask expect functions as packages
        answer = await cluster.scheduler_comm.versions()
    packages = dict(answer["packages"])
    return {"python": answer["host"]["python"], **packages}


def _why(error: BaseException) -> str:
    """Return the messages of the error and of its root cause: Dask's own message says only how long it tried."""
    said = [str(error)]
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
        said.append(str(error))
    return " / ".join(dict.fromkeys([said[0], said[-1]]))


def _check_versions(address: str, there: Mapping[str, Any]) -> None:
    here = {**get_versions()["packages"], PACKAGE: __version__}
    differs = [
        f"{title} {_readable(name, there.get(name))} instead of {_readable(name, here[name])}"
        for name, title in _COMPARED.items()
        if _readable(name, there.get(name)) != _readable(name, here[name])
    ]
    if differs:
        raise Unavailable(
            f"The scheduler at {address} has {', '.join(differs)}. The scheduler, its workers and this machine need "
            "the same versions: install them there and restart the scheduler, or use a matching environment here"
        )


def _readable(name: str, version: Any) -> str:
    """Return the part of a version that must match: for Python, only the major and minor numbers."""
    text = str(version or "(none)")
    return ".".join(text.split(".")[:2]) if name == "python" else text
