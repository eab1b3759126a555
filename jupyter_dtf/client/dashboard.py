"""Where a browser finds Dask's dashboard of a cluster: below the person's own Jupyter server."""

from __future__ import annotations

import os
from typing import Any

from ..errors import Unavailable
from ..schema.api import dashboard_path


def dashboard_url(cluster: str) -> str:
    """The address. Behind JupyterHub, which may not know its own public address, a path on the hub's host.

    Raises Unavailable where there is no Jupyter server.
    """
    path = dashboard_path(cluster)
    if prefix := os.environ.get("JUPYTERHUB_SERVICE_PREFIX"):
        return (os.environ.get("JUPYTERHUB_PUBLIC_URL") or os.environ.get("JUPYTERHUB_HOST", "") + prefix) + path
    servers = _servers()
    if not servers:
        raise Unavailable(
            "Dask's dashboard is reached through a Jupyter server of yours, which lets nobody else in, and none is "
            f"running. Start one (jupyter lab) and open /{path} on it"
        )
    mine = [server for server in servers if str(server["pid"]) == os.environ.get("JPY_PARENT_PID")]
    return str((mine or servers)[0]["url"]) + path


def _servers() -> list[dict[str, Any]]:
    from jupyter_server.serverapp import list_running_servers  # a second to import

    return list(list_running_servers())
