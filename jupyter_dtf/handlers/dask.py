"""A proxy for the pages and the WebSocket of Dask's dashboard, which the cluster serves on a Unix socket.

It passes only the address of a page and a few harmless headers to Dask: no token, no cookies, and nothing else that
identifies the user.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any
from urllib.parse import parse_qsl, urlencode

from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.netutil import Resolver
from tornado.simple_httpclient import SimpleAsyncHTTPClient
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, WebSocketHandler, websocket_connect

from ..errors import NotFound, Unavailable
from .base import SETTING
from .operation import HTML, described
from .request_guard import Guard
from .services import Services

TIMEOUT_S = 60.0
MAX_MESSAGE_BYTES = 1 << 20
"""The largest message from the browser, in bytes."""
MAX_PLOT_BYTES = 64 << 20
"""The largest message or page from Dask, in bytes."""
_ASKED_WITH = ("Accept", "If-Modified-Since", "If-None-Match", "User-Agent")
_ANSWERED_WITH = ("Cache-Control", "Content-Type", "Etag", "Last-Modified")
_OURS = ("token", "_xsrf")  # query parameters that are not passed on


class _OnSocket(Resolver):
    """Resolves every name to one Unix socket."""

    def initialize(self, path: str) -> None:
        self._path = path

    async def resolve(
        self, host: str, port: int, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[tuple[int, Any]]:
        return [(socket.AF_UNIX, self._path)]


@web.stream_request_body
class DaskHandler(Guard, WebSocketMixin, WebSocketHandler, JupyterHandler):  # type: ignore[misc]  # as Handler
    """Handles one page, file or WebSocket of the dashboard."""

    _dask: WebSocketClientConnection | None = None
    _reader: asyncio.Task[None] | None = None

    @property
    def max_message_size(self) -> int:
        return MAX_MESSAGE_BYTES

    @described(
        "Get a page, file or WebSocket of Dask's dashboard, if it is turned on", answer=HTML, errors=(404, 502, 503)
    )
    @ws_authenticated
    async def get(self, name: str, path: str) -> None:
        services: Services = self.settings[SETTING]
        self._socket = await (await services.fleet()).dashboard(name, start=False)
        if not self._socket:
            raise NotFound(f"Dask's dashboard of {name!r} is off until it is opened from the panel")
        if self.request.headers.get("Upgrade", "").lower() == "websocket":
            await self._open_stream()
        else:
            await self._answer_page()

    @property
    def _address(self) -> str:
        """The path passed to Dask: everything after ``/dask``, unchanged."""
        below = self.request.path[len(self.base_url) :]  # jupyter-dtf/api/clusters/NAME/dask/...
        path = below.split("/", 5)[5]
        query = urlencode([(key, value) for key, value in parse_qsl(self.request.query) if key not in _OURS])
        return f"//dask/{path}?{query}" if query else f"//dask/{path}"

    # -- pages ---------------------------------------------------------------------------------------------------------

    async def _answer_page(self) -> None:
        request = HTTPRequest(
            f"http:{self._address}",
            headers={name: self.request.headers[name] for name in _ASKED_WITH if name in self.request.headers},
            follow_redirects=False,
            decompress_response=False,
            request_timeout=TIMEOUT_S,
        )
        client = SimpleAsyncHTTPClient(
            force_instance=True, resolver=_OnSocket(path=self._socket), max_body_size=MAX_PLOT_BYTES
        )
        try:
            answer = await client.fetch(request, raise_error=False)
            if answer.code == 599:  # tornado's own code for a timeout
                answer.rethrow()
        except (OSError, HTTPClientError) as error:
            raise Unavailable(f"Dask's dashboard does not respond: {error}") from error
        finally:
            client.close()
        self.set_status(answer.code if answer.code < 500 else 502)
        for name in _ANSWERED_WITH:
            if name in answer.headers:
                self.set_header(name, answer.headers[name])
        location = answer.headers.get("Location", "")
        if location.startswith("/") and not location.startswith("//"):
            prefix = self.request.path[: len(self.request.path) - len(self._address.removeprefix("//dask/"))]
            self.set_header("Location", prefix + location[1:])
        if answer.code not in (204, 304):
            self.write(answer.body)
        await self.finish()

    # -- its WebSocket -------------------------------------------------------------------------------------------------

    async def _open_stream(self) -> None:
        if not self.check_origin():  # checked before a connection to Dask is opened
            raise web.HTTPError(403, "The dashboard's WebSocket can only be used by pages of this server")
        wanted = [part.strip() for part in self.request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        request = HTTPRequest(f"ws:{self._address}", request_timeout=TIMEOUT_S)
        try:
            self._dask = await websocket_connect(
                request,
                subprotocols=[part for part in wanted if part] or None,
                resolver=_OnSocket(path=self._socket),
                max_message_size=MAX_PLOT_BYTES,
            )
        except Exception as error:  # there is no stream, for any reason
            raise Unavailable(f"Dask's dashboard did not open a stream: {error}") from error
        await super().get()

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        return self._dask.selected_subprotocol if self._dask is not None else None

    def open(self, *args: str, **kwargs: str) -> None:
        super().open(*args, **kwargs)
        self._reader = asyncio.get_running_loop().create_task(self._forward(), name="jupyter_dtf dask")

    async def _forward(self) -> None:
        assert self._dask is not None
        with contextlib.suppress(WebSocketClosedError, asyncio.CancelledError):
            while (message := await self._dask.read_message()) is not None:
                await self.write_message(message, binary=isinstance(message, bytes))
            self.close(1001, "Dask's dashboard has ended")

    async def on_message(self, message: str | bytes) -> None:
        if self._dask is not None:
            with contextlib.suppress(WebSocketClosedError):
                await self._dask.write_message(message, binary=isinstance(message, bytes))

    def on_close(self) -> None:
        super().on_close()
        if self._reader is not None:
            self._reader.cancel()
        if self._dask is not None:
            self._dask.close()
