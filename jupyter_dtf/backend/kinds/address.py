"""The kind ``address``: a Dask scheduler that somebody else runs, and its workers.

This module describes the kind and checks its options; ``address_cluster`` connects to the scheduler.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import InvalidInput
from ...schema.api import FieldInfo
from ...schema.hosts import HostDesign
from .base import Kind

TLS_FILES = {
    "ca_file": "The certificate authority file",
    "cert_file": "The certificate file",
    "key_file": "The private key file",
}
_ADDRESS = re.compile(r"^(?:(?P<scheme>[a-z]+)://)?(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s\[\]:/]+):(?P<port>[0-9]{1,5})/?$")


class AddressKind(Kind):
    """The kind ``address``: the workers of a scheduler that somebody else runs."""

    kind = "address"
    title = "An existing Dask scheduler"
    is_guest = True

    def fields(self) -> list[FieldInfo]:
        return [
            FieldInfo(
                name="address",
                title="Address",
                type="string",
                default=os.environ.get("DASK_SCHEDULER_ADDRESS", ""),
                help="The scheduler's address: tls://HOST:PORT, or tcp://HOST:PORT if it has no certificates.",
            ),
            FieldInfo(
                name="ca_file",
                title="Certificate authority",
                type="string",
                default="",
                help="For tls://, a PEM file. If all three are left empty, Dask's configuration is used.",
            ),
            FieldInfo(
                name="cert_file",
                title="Certificate",
                type="string",
                default="",
                help="For tls://, the client certificate file.",
            ),
            FieldInfo(
                name="key_file",
                title="Private key",
                type="string",
                default="",
                help="For tls://, the certificate's key file, without a passphrase.",
            ),
        ]

    def hosts(self, options: Mapping[str, Any], jobs: Mapping[str, int]) -> int:
        """Return 1, the minimum: this cluster does not control the number of workers."""
        return 1

    def expected_hosts(self, options: Mapping[str, Any]) -> list[HostDesign]:
        """Return no hosts: the workers are unknown until the scheduler is contacted. Raises InvalidInput."""
        check(options)
        return []

    async def create(self, options: Mapping[str, Any], security: Any, directory: Path) -> Any:
        from . import address_cluster

        return await address_cluster.connect_to(*check(options), scope=directory.name)


def check(options: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return a pair: the scheduler's address with its scheme, and the absolute paths of the three TLS files.

    If no files are given, the list of paths is empty.

    Raises:
        InvalidInput: For errors that can be detected without contacting the scheduler.
    """
    given = str(options["address"]).strip()
    match = _ADDRESS.match(given)
    files = {name: str(options[name]).strip() for name in TLS_FILES}
    if match is None or match["scheme"] not in (None, "tcp", "tls") or not 0 < int(match["port"]) < 65536:
        raise InvalidInput(
            f"The scheduler's address must be tls://HOST:PORT or tcp://HOST:PORT, got {given!r:.200}",
            field="options.address",
        )
    scheme = match["scheme"] or ("tls" if any(files.values()) else "tcp")
    for name, path in files.items():
        if path and scheme == "tcp":
            raise InvalidInput(
                f"{TLS_FILES[name]} requires an address that begins with tls://, got {given!r:.200}",
                field=f"options.{name}",
            )
        if any(files.values()) and not path and scheme == "tls":
            raise InvalidInput(f"{TLS_FILES[name]} is missing: TLS needs all three files", field=f"options.{name}")
        full = Path(path).expanduser()
        if path and not (full.is_file() and os.access(full, os.R_OK)):
            raise InvalidInput(f"{TLS_FILES[name]} must be a readable file, got {path!r:.200}", field=f"options.{name}")
    found = [str(Path(path).expanduser().resolve()) for path in files.values() if path]
    return f"{scheme}://{match['host']}:{match['port']}", found
