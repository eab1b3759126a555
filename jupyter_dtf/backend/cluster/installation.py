"""The controller's additions to a Dask scheduler: operations for viewers and hosts, and a plugin for all workers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ..._version import __version__
from ...errors import DtfError, Unavailable
from ...schema.operations import LEAVE, scoped

NAME = "jupyter_dtf"


class Installation:
    """The additions to ``scheduler``. Their names include ``scope``."""

    def __init__(self, scheduler: Any, scope: str) -> None:
        self.name = scoped(NAME, scope)
        """The name of both the scheduler's and the workers' plugin."""
        self._scheduler = scheduler
        self._scope = scope
        self._handlers: list[str] = []
        self._stream_handlers: list[str] = []

    def answer(self, handlers: Mapping[str, Callable[..., Any]]) -> None:
        """Register handlers for requests, keyed by operation. The scheduler replies with their return values."""
        for name, handler in handlers.items():
            self._handlers.append(scoped(name, self._scope))
            self._scheduler.handlers[self._handlers[-1]] = handler

    def hear(self, handlers: Mapping[str, Callable[..., Any]]) -> None:
        """Register handlers for messages on the workers' streams, which get no reply, keyed by operation.

        Dask shuts down a worker that sends an unknown operation.
        """
        for name, handler in handlers.items():
            self._stream_handlers.append(scoped(name, self._scope))
            self._scheduler.stream_handlers[self._stream_handlers[-1]] = handler

    async def send(self, plugin: bytes) -> None:
        """Load a plugin in all current and future workers. A worker that cannot load it does not join."""
        await self._scheduler.register_worker_plugin(None, plugin, self.name, idempotent=False)

    def stop_answering(self) -> None:
        """Remove the controller and its request handlers, except the one for ``LEAVE``.

        The workers still have the plugin, so their messages are still handled.
        """
        self._scheduler.plugins.pop(self.name, None)
        for name in self._handlers:
            if name != scoped(LEAVE, self._scope):
                del self._scheduler.handlers[name]

    def stop_hearing(self) -> None:
        """Remove the remaining handlers. Must be called only when workers no longer send anything."""
        for name in self._stream_handlers:
            del self._scheduler.stream_handlers[name]
        self._scheduler.handlers.pop(scoped(LEAVE, self._scope), None)


def answering(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a handler so that it returns this package's errors as values.

    Dask would log each exception with a traceback, and viewers need its class and message.
    """
    signature = inspect.signature(handler)

    async def answer(**message: Any) -> Any:
        try:
            try:
                signature.bind(**message)
            except TypeError as error:
                raise Unavailable(
                    f"The cluster (jupyter_dtf {__version__}) does not understand the arguments of a request, which "
                    f"seems to be from another version: {handler.__name__}: {error}. Close the cluster and start it "
                    "again"
                ) from None
            result = handler(**message)
            return {"ok": await result if asyncio.iscoroutine(result) else result}
        except DtfError as error:
            return {"error": type(error).__name__, "message": str(error)}

    answer.__name__ = handler.__name__
    return answer
