"""The event stream: one WebSocket for everything that moves."""

from __future__ import annotations

import asyncio
from typing import Any

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from ..errors import DtfError
from ..schema.api import SocketError
from ..schema.base import encode_json
from .base import AUTH_RESOURCE, SETTING
from .feed import Feed
from .services import Services

MAX_MESSAGE_BYTES = 1 << 16


class EventsHandler(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """Sends ``schema.api.ServerMessage``, takes ``schema.api.ClientMessage``, both as JSON text."""

    auth_resource = AUTH_RESOURCE
    _feed: Feed | None = None
    _task: asyncio.Task[None] | None = None

    def get_compression_options(self) -> dict[str, Any] | None:
        options: dict[str, Any] | None = self.settings.get("websocket_compression_options")  # as for Jupyter's kernels
        return options

    def initialize(self) -> None:
        self._before: list[str | bytes] = []

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        allowed = self.authorizer.is_authorized(self, self.current_user, "execute", self.auth_resource)
        if not await ensure_async(allowed):
            raise web.HTTPError(403, f"User is not authorized to execute on resource: {self.auth_resource}.")
        await super().get(*args, **kwargs)

    def open(self, *args: str, **kwargs: str) -> None:
        super().open(*args, **kwargs)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="jupyter_dtf events")

    def on_message(self, message: str | bytes) -> None:
        if len(message) > MAX_MESSAGE_BYTES:
            self.close(1009, f"A message has at most {MAX_MESSAGE_BYTES} bytes")
        elif self._feed is not None:
            self._feed.receive(message)
        elif len(self._before) < MAX_MESSAGE_BYTES // 1024:
            self._before.append(message)

    def on_close(self) -> None:
        super().on_close()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        services: Services = self.settings[SETTING]
        try:
            try:
                self._feed = Feed(await services.fleet(), self._send)
            except DtfError as error:
                await self._send(encode_json(SocketError(message=str(error))))
                self.close(1011, "not available")
                return
            for message in self._before:
                self._feed.receive(message)
            await self._feed.run()
        except (WebSocketClosedError, asyncio.CancelledError):
            pass
        except Exception:
            self.log.exception("The event stream ended by a mistake")
            self.close(1011, "internal error")

    async def _send(self, data: bytes) -> None:
        await self.write_message(data.decode())
