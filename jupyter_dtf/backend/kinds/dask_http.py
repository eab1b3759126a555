"""Dask without HTTP ports. Its dashboard is served on a Unix socket, on request.

By default, Dask's scheduler and each worker open an HTTP port, even without the dashboard, and serve every client
without TLS or authentication.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

from distributed import Nanny, Scheduler, Worker
from distributed.http import get_handlers
from distributed.http.routing import RoutingApplication
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_unix_socket

from ..machine import paths

SOCKET = "dask.sock"
ROUTES = [f"distributed.http.{name}" for name in ("scheduler.info", "scheduler.json", "health", "statics")]
"""Dask's routes except ``proxy``, which fetches any URL from other machines, and ``prometheus``."""


class _Silent:
    """A Dask server without an HTTP port."""

    services: dict[str, Any]

    def start_http_server(
        self, routes: Any, dashboard_address: Any, default_port: int = 0, ssl_options: Any = None
    ) -> None:
        """Override Dask's method to set the attributes that other Dask code expects, without listening."""
        self.http_application = RoutingApplication([])
        server: Any = HTTPServer(self.http_application)
        server.port = 0
        self.http_server = server


class SilentScheduler(_Silent, Scheduler):
    """Dask's scheduler without an HTTP port."""


class SilentWorker(_Silent, Worker):
    """Dask's worker without an HTTP port."""


class SilentNanny(Nanny):
    """Dask's nanny for a SilentWorker."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "worker_class": SilentWorker})


def silence(server: Any) -> None:
    """Close the HTTP port of an ordinary Dask scheduler or worker."""
    listening = server.services.pop("dashboard", None)
    if listening is not None:
        listening.stop()


class Dashboard:
    """Dask's dashboard on a Unix socket, in a directory that only the user can access."""

    def __init__(self, scheduler: Any, token: str) -> None:
        """``token`` identifies the cluster: the socket is in this cluster's directory on the scheduler's machine."""
        self._scheduler = scheduler
        self._token = token
        self._path = Path()
        self._lock = asyncio.Lock()
        self._server: HTTPServer | None = None
        self._application: RoutingApplication | None = None

    @property
    def socket(self) -> str:
        """The path of the dashboard's socket; empty while the dashboard is off."""
        return str(self._path) if self._server is not None else ""

    async def start(self) -> str:
        """Start the dashboard if it is off, and return the path of its socket."""
        async with self._lock:
            if self._server is None:
                # Importing Bokeh's server takes a second, which must not block the scheduler.
                pages = await asyncio.to_thread(_import_pages)
                self._application = RoutingApplication(get_handlers(self._scheduler, ROUTES))
                server = HTTPServer(self._application)
                pages.connect(self._application, server, self._scheduler, prefix="")
                self._path = paths.machine_dir(self._token) / SOCKET
                server.add_socket(bind_unix_socket(str(self._path), mode=0o600))
                self._server = server
        return self.socket

    async def stop(self) -> None:
        """Stop the dashboard if it is on: close its connections and remove its socket."""
        if self._server is None or self._application is None:
            return
        server, self._server = self._server, None
        server.stop()
        for application in self._application.applications:
            application.stop()
        await server.close_all_connections()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()


def _import_pages() -> Any:
    from distributed.dashboard import scheduler

    return scheduler
