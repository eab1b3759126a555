"""What Dask's processes on a node of a batch system, or in a pod, are told by a file: there is a private key in it."""

from __future__ import annotations

from typing import Any

import dask.config


def node_settings(security: Any, token: str) -> dict[str, Any]:
    """As JSON can have it; ``job_worker`` reads it."""
    config = {name: value for name, value in dask.config.config.items() if name != "temporary-directory"}
    certificates = ("tls_ca_file", "tls_worker_cert", "tls_worker_key")
    return {
        "token": token,
        "tasks": 0,
        "security": {name: getattr(security, name) for name in certificates},
        "dask": dask.config.serialize(config),
    }
