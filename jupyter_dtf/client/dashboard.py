"""The URL of a cluster's Dask dashboard, which the user's own Jupyter server serves."""

from __future__ import annotations

import os
from typing import Any

from ..errors import Unavailable
from ..schema.api import dashboard_path


def dashboard_url(cluster: str) -> str:
    """Return the URL of a cluster's dashboard.

    Behind a JupyterHub that does not know its public address, only the path is returned. Raises Unavailable if no
    Jupyter server is running.
    """
    path = dashboard_path(cluster)
    if prefix := os.environ.get("JUPYTERHUB_SERVICE_PREFIX"):
        return (os.environ.get("JUPYTERHUB_PUBLIC_URL") or os.environ.get("JUPYTERHUB_HOST", "") + prefix) + path
    servers = _servers()
    if not servers:
        raise Unavailable(
            "Dask's dashboard is served by your Jupyter server, so that nobody else has access, but no Jupyter server "
            f"is running. Start one (jupyter lab) and open /{path} on it"
        )
    mine = [server for server in servers if str(server["pid"]) == os.environ.get("JPY_PARENT_PID")]
    return str((mine or servers)[0]["url"]) + path


def _servers() -> list[dict[str, Any]]:
    from jupyter_server.serverapp import list_running_servers  # takes a second to import

    return list(list_running_servers())
