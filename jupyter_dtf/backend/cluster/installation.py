"""What the controller puts into a Dask scheduler: operations for viewers and hosts, and the plugin of every worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...schema.operations import LEAVE, scoped

NAME = "jupyter_dtf"


class Installation:
    """In ``scheduler``, under names of the ``scope``."""

    def __init__(self, scheduler: Any, scope: str) -> None:
        self.name = scoped(NAME, scope)
        """Of the plugins, the scheduler's and the workers'."""
        self._scheduler = scheduler
        self._scope = scope
        self._handlers: list[str] = []
        self._stream_handlers: list[str] = []

    def answer(self, handlers: Mapping[str, Callable[..., Any]]) -> None:
        """Operations that the scheduler is asked for."""
        for name, handler in handlers.items():
            self._handlers.append(scoped(name, self._scope))
            self._scheduler.handlers[self._handlers[-1]] = handler

    def hear(self, handlers: Mapping[str, Callable[..., Any]]) -> None:
        """What workers say on their streams. Dask ends a worker that says what nobody hears."""
        for name, handler in handlers.items():
            self._stream_handlers.append(scoped(name, self._scope))
            self._scheduler.stream_handlers[self._stream_handlers[-1]] = handler

    async def send(self, plugin: bytes) -> None:
        """Have all workers load a plugin, those that are to come too. A worker that cannot does not join."""
        await self._scheduler.register_worker_plugin(None, plugin, self.name, idempotent=False)

    def stop_answering(self) -> None:
        """Take the operations out again, and the controller itself; the workers have the plugin still."""
        self._scheduler.plugins.pop(self.name, None)
        for name in self._handlers:
            if name != scoped(LEAVE, self._scope):
                del self._scheduler.handlers[name]

    def stop_hearing(self) -> None:
        """No worker says anything any more: take out the rest."""
        for name in self._stream_handlers:
            del self._scheduler.stream_handlers[name]
        self._scheduler.handlers.pop(scoped(LEAVE, self._scope), None)
