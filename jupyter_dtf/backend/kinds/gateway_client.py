"""The client of a gateway: authentication, the options that the gateway offers, and messages for its errors."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import dask.config
from dask_gateway import BasicAuth, Gateway, GatewayClusterError, GatewayServerError
from dask_gateway.options import Bool, Float, Integer, Options, Select, String
from dask_gateway.options import Mapping as MappingField

from ...errors import InvalidInput, Unavailable
from ...schema.api import FieldInfo
from ...schema.cluster_request import COMMON
from .gateway_fields import BASIC, CONFIGURED, FIELDS

ANSWER_S = 6.0
"""The timeout for a response from a gateway."""
KEPT_S = 20.0
"""How long a gateway's options are cached while a person fills in a form."""

_T = TypeVar("_T")
_TYPES = {
    String: "string",
    Bool: "boolean",
    Integer: "integer",
    Float: "number",
    Select: "choice",
    MappingField: "string",
}
_NOT_HERE = {*COMMON, "backend", "design", "jobs", "kind", "name"}
"""Names that have another meaning in a cluster request, so the form omits a gateway's options with these names."""
_known: dict[tuple[str, ...], tuple[float, list[FieldInfo]]] = {}


def offered(options: Mapping[str, Any]) -> list[FieldInfo]:
    """Return the options that the gateway offers this user. Must not be called on an event loop.

    Raises the exceptions of ``make`` and ``ask``.
    """
    key = tuple(str(options[name]) for name in ("address", "proxy_address", "authentication", "user", "password_file"))
    at, fields = _known.get(key, (0.0, []))
    if not at or time.monotonic() - at > KEPT_S:

        async def ask() -> list[FieldInfo]:
            async with make(options) as gateway:
                return fields_of(await offer(gateway))

        fields = asyncio.run(ask())
        _known.clear()
        _known[key] = time.monotonic(), fields
    return fields


async def offer(gateway: Gateway) -> Options:
    """Return the gateway's options, with defaults from Dask's configuration. Raises the exceptions of ``ask``."""
    return await ask(gateway, gateway.cluster_options())


def make(options: Mapping[str, Any]) -> Gateway:
    """Create a client, which the caller must close. Raises InvalidInput if the options are not valid."""
    address = options["address"] or None
    if address is None and not dask.config.get("gateway.address"):
        raise InvalidInput(
            "`address` must be given, because Dask's configuration names no gateway (gateway.address)",
            field="options.address",
        )
    authentication = options["authentication"]
    auth: Any = authentication
    try:
        if authentication == CONFIGURED:
            auth = None
        elif authentication == BASIC:
            auth = BasicAuth(username=options["user"] or None, password=_password(options["password_file"]))
        return Gateway(address, proxy_address=options["proxy_address"] or None, auth=auth, asynchronous=True)
    except (ImportError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(
            f"`authentication` cannot be {authentication!r}: {error}", field="options.authentication"
        ) from None


def _password(file: str) -> str | None:
    if not file:
        configured = dask.config.get("gateway.auth.kwargs", None) or {}
        return configured.get("password")
    return Path(file).expanduser().read_text().rstrip("\r\n")


async def ask(gateway: Gateway, question: Awaitable[_T]) -> _T:
    """Await a request to a gateway, and return the response. Raises InvalidInput or Unavailable, with a readable
    message.
    """
    where = gateway.address
    try:
        return await asyncio.wait_for(question, ANSWER_S)
    except asyncio.TimeoutError:
        raise _wrong(f"The gateway {where} did not respond within {ANSWER_S:.0f} s") from None
    except aiohttp.ClientResponseError as error:
        said = f"{error.status} {error.message}".strip()
        if error.status in (401, 403):
            raise InvalidInput(
                f"The gateway {where} denies access ({said}): check authentication, user and password",
                field="options.authentication",
            ) from None
        raise _wrong(f"{where} is not a Dask gateway, or does not work: it responds with {said}") from None
    except aiohttp.ClientConnectorError as error:
        cause = error.os_error
        said = os.strerror(cause.errno) if cause.errno and cause.errno > 0 else cause.strerror or str(cause)
        raise _wrong(f"No gateway responds at {where}: {said}") from None
    except (aiohttp.ClientError, json.JSONDecodeError, KeyError) as error:
        raise _wrong(f"{where} is not a Dask gateway: {str(error) or type(error).__name__:.200}") from None
    except GatewayServerError as error:
        raise Unavailable(f"The gateway {where} has failed: {error}") from None
    except (GatewayClusterError, ValueError) as error:
        raise Unavailable(f"The gateway {where} refuses the request: {error}") from None
    except ImportError as error:  # a dependency of Kerberos authentication
        raise InvalidInput(f"`authentication` cannot be used here: {error}", field="options.authentication") from None


def _wrong(message: str) -> InvalidInput:
    return InvalidInput(message, field="options.address")


# -- options as form fields ----------------------------------------------------------------------------------------


def fields_of(options: Options) -> list[FieldInfo]:
    """Convert a gateway's options to form fields. Options with a reserved name or an unknown type are omitted, and keep
    their defaults.
    """
    taken = {*_NOT_HERE, *(field.name for field in FIELDS)}
    return [
        FieldInfo(
            name=name,
            title=field.label,
            type=_TYPES[type(field)],
            default=json.dumps(field.value) if isinstance(field, MappingField) else field.value,
            help="As JSON." if isinstance(field, MappingField) else "",
            minimum=getattr(field, "min", None),
            maximum=getattr(field, "max", None),
            choices=list(getattr(field, "options", ())),
        )
        for name, field in options._fields.items()
        if name not in taken and type(field) in _TYPES
    ]


def choose(options: Options, chosen: Mapping[str, Any]) -> None:
    """Set the gateway's options to the chosen values. Raises InvalidInput for a value that the gateway refuses."""
    for name, value in chosen.items():
        try:
            options[name] = json.loads(value) if isinstance(options._fields[name], MappingField) else value
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"The gateway refuses `{name}`: {error}", field=f"options.{name}") from None
