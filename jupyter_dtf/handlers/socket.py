"""The event stream: a single WebSocket for all live data."""

from __future__ import annotations

import asyncio
from typing import Any

from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from ..errors import DtfError
from ..schema import protocol
from ..schema.base import encode_json
from ..schema.socket_messages import HelloMessage, SocketError
from .base import SETTING
from .feed import Feed
from .operation import described
from .request_guard import Guard
from .services import Services

MAX_MESSAGE_BYTES = 1 << 16
FOREIGN = 4001
"""The close code for a page that supports none of the server's protocols."""
MAX_READ_BYTES = 10 << 20
"""The size, in bytes, up to which overlong messages are read, so that the sender can be notified of the reason for
closing."""


@web.stream_request_body
class EventsHandler(Guard, WebSocketMixin, WebSocketHandler, JupyterHandler):  # type: ignore[misc]  # as Handler
    """Sends ``ServerMessage`` and receives ``ClientMessage`` of ``schema.socket_messages``, both as JSON text.

    Read permission is sufficient to open the socket, because subscriptions only change which messages are sent.
    """

    _feed: Feed | None = None
    _task: asyncio.Task[None] | None = None

    def get_compression_options(self) -> dict[str, Any] | None:
        options: dict[str, Any] | None = self.settings.get(
            "websocket_compression_options"
        )  # same as for Jupyter's kernels
        return options

    def initialize(self) -> None:
        self._is_open = asyncio.Event()

    @property
    def max_message_size(self) -> int:
        """The message size, in bytes, above which tornado closes the connection without giving a reason."""
        return MAX_READ_BYTES

    @described(
        "Open a WebSocket. The server sends ServerMessage: all clusters and runs, then changes, and the events and "
        "decimated series of subscribed runs. The browser sends ClientMessage",
        status=101,
    )
    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        await super().get(*args, **kwargs)

    def open(self, *args: str, **kwargs: str) -> None:
        super().open(*args, **kwargs)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="jupyter_dtf events")

    async def on_message(self, message: str | bytes) -> None:
        if len(message) > MAX_MESSAGE_BYTES:
            self.close(1009, f"A message must have at most {MAX_MESSAGE_BYTES} bytes")
            return
        await self._is_open.wait()  # tornado reads no further messages until then
        if self._feed is not None:
            await self._feed.has_room()
            self._feed.receive(message)

    def on_close(self) -> None:
        super().on_close()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        services: Services = self.settings[SETTING]
        ours = protocol.ours()
        try:
            await self._send(
                encode_json(HelloMessage(protocol=ours.protocol, oldest=ours.oldest, version=ours.release))
            )
            if not ours.understands(self._speech(ours)):
                self.close(FOREIGN, "no protocol in common")
                return
            try:
                self._feed = Feed(await services.fleet(), self._send)
            except DtfError as error:
                await self._send(encode_json(SocketError(message=str(error))))
                self.close(1011, "not available")
                return
            self._is_open.set()
            await self._feed.run()
        except (WebSocketClosedError, asyncio.CancelledError):
            pass
        except Exception:
            self.log.exception("The event stream ended unexpectedly")
            self.close(1011, "internal error")
        finally:
            self._is_open.set()

    def _speech(self, otherwise: protocol.Speech) -> protocol.Speech:
        """Return the protocols that the page states, or ``otherwise`` for a program that states none."""
        said = [self.get_query_argument(name, "") for name in ("protocol", "oldest")]
        if not all(text.isdecimal() and len(text) < 10 for text in said):
            return otherwise
        return protocol.Speech(protocol=int(said[0]), oldest=int(said[1]))

    async def _send(self, data: bytes) -> None:
        await self.write_message(data.decode())
