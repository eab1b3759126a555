"""The kind ``gateway``: a cluster managed by a Dask Gateway.

This module describes the kind and checks its options; ``gateway_client`` communicates with a gateway, and
``gateway_cluster`` starts, scales and stops the cluster.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ...errors import InvalidInput
from ...schema.api import FieldInfo
from ...schema.hosts import HostDesign
from . import idle_release
from .base import Kind
from .gateway_fields import BASIC, FIELDS


class GatewayKind(Kind):
    """The kind ``gateway``: a cluster of a Dask Gateway."""

    kind = "gateway"
    title = "Dask Gateway"
    scheduler_is_elsewhere = True
    has_more_fields = True

    def missing(self) -> str:
        if importlib.util.find_spec("dask_gateway") is None:
            return "dask-gateway is not installed: pip install jupyter-dtf[gateway]"
        return ""

    def fields(self) -> list[FieldInfo]:
        return [*FIELDS, *idle_release.fields()]

    def hosts(self, options: Mapping[str, Any], jobs: Mapping[str, int]) -> int:
        return -(-sum(jobs.values()) // int(options["tasks_per_worker"]))

    def expected_hosts(self, options: Mapping[str, Any]) -> list[HostDesign]:
        """Return no hosts: the gateway determines a worker's resources. Raises InvalidInput for invalid options."""
        if address := options["address"]:
            parts = urlsplit(address)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise InvalidInput(
                    f"`address` must begin with http:// or https:// and name a host, got {address!r:.200}",
                    field="options.address",
                )
        for field in ("user", "password_file"):
            if options[field] and options["authentication"] != BASIC:
                raise InvalidInput(
                    f"`{field}` requires basic authentication, got {options['authentication']!r} as `authentication`",
                    field=f"options.{field}",
                )
        if (file := options["password_file"]) and not _is_for_its_owner(Path(file).expanduser()):
            raise InvalidInput(
                f"`password_file` must be a file that only you can read (chmod 600), got {file!r:.200}",
                field="options.password_file",
            )
        return []

    def more_fields(self, options: Mapping[str, Any]) -> list[FieldInfo]:
        """Return the options that the gateway offers this user. Raises InvalidInput or Unavailable."""
        self.expected_hosts(options)
        from . import gateway_client

        return gateway_client.offered(options)

    async def create(self, options: Mapping[str, Any], security: Any, directory: Path) -> Any:
        from . import gateway_cluster

        return await gateway_cluster.start(self, options, security)


def _is_for_its_owner(path: Path) -> bool:
    try:
        return path.is_file() and os.access(path, os.R_OK) and not path.stat().st_mode & 0o077
    except OSError:
        return False
