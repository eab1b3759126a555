"""Closes an unused cluster after a grace period."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

FIRST_VIEWER_S = 60.0
"""How long a new cluster waits for its first viewer."""


class Countdown:
    """Calls ``on_end()`` when the cluster has not been used for ``grace_s`` seconds."""

    def __init__(self, grace_s: float, on_end: Callable[[], None]) -> None:
        self._grace_s = grace_s
        self._on_end = on_end
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        return self._timer is not None

    def look(self, *, in_use: bool, was_seen: bool) -> None:
        """Restart the countdown, or cancel it if ``in_use``. ``was_seen``: whether the cluster ever had a viewer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not in_use:
            wait_s = self._grace_s if was_seen else max(FIRST_VIEWER_S, self._grace_s)
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._on_end)
