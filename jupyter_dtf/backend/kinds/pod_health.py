"""A minimal HTTP server in a scheduler's pod, which reports the scheduler's health and when it became idle.

Kubernetes queries the health. Dask's operator queries the time, and deletes a cluster that has been idle for its
``idleTimeout``. A scheduler counts as idle once it is no longer needed (``forget``).
"""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HEALTH, IDLE = "/health", "/api/v1/check_idle"
_idle_since = 0.0


def forget() -> None:
    """Mark this scheduler as no longer needed."""
    global _idle_since
    _idle_since = _idle_since or time.time()


async def abandon(scheduler: Any) -> None:
    """Close the workers immediately, because the cluster process is gone. The operator deletes the rest later."""
    forget()
    await scheduler.retire_workers(workers=list(scheduler.workers), close_workers=True, remove=True)


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path not in (IDLE, HEALTH):
            self.send_error(404)
            return
        body = json.dumps({"idle_since": _idle_since}).encode() if self.path == IDLE else b"ok"
        self.send_response(200)
        self.send_header("Content-Type", "application/json" if self.path == IDLE else "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing, because there is a request every second."""


def listen(host: str, port: int) -> ThreadingHTTPServer:
    """Start serving in a separate thread, and return the server, which the caller must shut down."""
    server = ThreadingHTTPServer((host, port), _Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
