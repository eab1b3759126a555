"""The settings of Dask's processes on batch nodes and in pods, passed in a file because they include a private key."""

from __future__ import annotations

from typing import Any

import dask.config


def node_settings(security: Any, token: str) -> dict[str, Any]:
    """Return the settings, which ``job_worker`` and ``pod_scheduler`` read from a JSON file."""
    config = {name: value for name, value in dask.config.config.items() if name != "temporary-directory"}
    certificates = ("tls_ca_file", "tls_worker_cert", "tls_worker_key")
    return {
        "token": token,
        "tasks": 0,
        "security": {name: getattr(security, name) for name in certificates},
        "dask": dask.config.serialize(config),
    }
