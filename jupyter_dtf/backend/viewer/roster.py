"""The clusters that a viewer knows, keyed by name, and the subscribers to changes in them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ...errors import NotFound
from .background import Background
from .member import Member

logger = logging.getLogger(__name__)


class Roster:
    """The known clusters. Its methods must be called on its event loop."""

    def __init__(self, background: Background) -> None:
        self.members: dict[str, Member] = {}
        self._background = background
        self._subscribers: list[Callable[[], None]] = []
        self._changed = asyncio.Condition()

    def find(self, name: str) -> Member:
        """Return the cluster with that name. Raises NotFound."""
        if name not in self.members:
            raise NotFound(f"There is no cluster named {name!r}")
        return self.members[name]

    def holds(self, member: Member) -> bool:
        """Return whether this member is still the one registered under its name."""
        return self.members.get(member.name) is member

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback()`` after any cluster has changed. Returns a function that unsubscribes it."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback) if callback in self._subscribers else None

    def tell(self) -> None:
        """Notify subscribers and waiters that a cluster has changed."""
        for callback in list(self._subscribers):
            try:
                callback()
            except Exception:
                logger.exception("A subscriber to changes in clusters raised an exception")
        self._background.begin(self._notify())

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def wait_for(self, holds: Callable[[], object]) -> None:
        """Wait until ``holds()`` is true. It is called after each change, and exceptions that it raises propagate."""
        async with self._changed:
            await self._changed.wait_for(lambda: bool(holds()))
