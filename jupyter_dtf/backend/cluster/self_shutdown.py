"""Shuts down a scheduler that runs on a different machine from the cluster process, when that process is gone.

On the machine of the cluster process, everything ends with that process, which also removes the directories. On another
machine, the scheduler must notice that the cluster process is gone, close the cluster, and clean up after itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable

from ..machine import cluster_processes, paths

logger = logging.getLogger(__name__)

RETRY_S = 10.0
"""How long to wait before another attempt to end the scheduler."""


class LeftAlone:
    """Calls ``end()`` once the cluster process has been gone for ``after_s`` seconds. Used in the controller."""

    def __init__(self, token: str, after_s: float, end: Callable[[], Awaitable[None]]) -> None:
        self._token = token
        self._after_s = after_s
        self._end = end
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._ending: asyncio.Future[None] | None = None
        self._claims = [cluster_processes.claim(make(token)) for make in (paths.machine_dir, paths.shared_memory_dir)]

    def look(self, *, is_held: bool) -> None:
        """Cancel the countdown if ``is_held`` (the cluster process is attached); otherwise start it."""
        if is_held and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elif not is_held and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._after_s, self._begin)

    def _begin(self) -> None:
        self._ending = asyncio.ensure_future(self._try_to_end())

    async def _try_to_end(self) -> None:
        """Call ``end`` until it succeeds: nothing else would ever end this scheduler."""
        while not self._is_closed:
            try:
                await self._end()
            except Exception:
                logger.exception("The cluster could not be ended although its process is gone; retrying")
                await asyncio.sleep(RETRY_S)
            else:
                return

    def close(self) -> None:
        """Remove the cluster's directories on this machine, unless a host here needs them.

        Called when the scheduler closes.
        """
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for claim in self._claims:
            os.close(claim)
        for parent in paths.family_parents():
            with contextlib.suppress(OSError):
                cluster_processes.sweep_one(parent / self._token)
