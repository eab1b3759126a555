"""A scheduler that runs on another machine than the cluster process: what it does by itself there.

On the cluster process's own machine all ends with that one, and its directories are removed by it. Elsewhere the
scheduler notices that nobody holds the cluster any more, and ends it, and clears up after itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable

from ..machine import family, paths


class LeftAlone:
    """Calls ``end()`` once the cluster process has been gone for ``after_s`` seconds. In the controller."""

    def __init__(self, token: str, after_s: float, end: Callable[[], Awaitable[None]]) -> None:
        self._token = token
        self._after_s = after_s
        self._end = end
        self._timer: asyncio.TimerHandle | None = None
        self._ending: asyncio.Future[None] | None = None
        self._claims = [family.claim(make(token)) for make in (paths.machine_dir, paths.shared_memory_dir)]

    def look(self, *, is_held: bool) -> None:
        """Whether the cluster process is there."""
        if is_held and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elif not is_held and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._after_s, self._begin)

    def _begin(self) -> None:
        self._ending = asyncio.ensure_future(self._end())

    def close(self) -> None:
        """The scheduler closes: what it has on this machine goes, unless a host here still needs it."""
        if self._timer is not None:
            self._timer.cancel()
        for claim in self._claims:
            os.close(claim)
        for parent in paths.family_parents():
            with contextlib.suppress(OSError):
                family.sweep_one(parent / self._token)
