"""The word that this host's machine is to go, and what comes of it: its tasks leave, then the Dask worker ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import signal
import threading
import time
from collections.abc import Callable

from distributed import Worker

from ..kinds.base import NOTICES

logger = logging.getLogger(__name__)

LOOK_S = 0.1
"""Between two looks whether a task is left."""


class Notice:
    """``has_tasks()``: whether there are tasks here; ``tell()`` tells the controller of this host, and ``why`` with it.

    A host without tasks has nothing to tell: it just ends. So the ordinary end of a cluster, before which its runs are
    ended, is no notice, whatever signal comes with it.
    """

    def __init__(self, worker: Worker, *, has_tasks: Callable[[], bool], tell: Callable[[], None]) -> None:
        self.why = ""
        """The signal that says it, or other words; empty while the machine stays."""
        self._worker = worker
        self._has_tasks = has_tasks
        self._tell = tell
        self._taken: list[signal.Signals] = []
        self._leaving: asyncio.Task[None] | None = None

    def listen(self) -> None:
        """Take the signals, in a process that a nanny has started for this worker alone.

        ``dask worker --no-nanny`` takes them itself, and any nanny that gets them closes its worker in its own way.
        """
        if not self._worker.nanny or threading.current_thread() is not threading.main_thread():
            return
        for number in NOTICES:
            if signal.getsignal(number) is signal.SIG_DFL:
                asyncio.get_running_loop().add_signal_handler(number, self._heard, number)
                self._taken.append(number)

    def close(self) -> None:
        """Give the signals back."""
        for number in self._taken:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                asyncio.get_running_loop().remove_signal_handler(number)
        self._taken.clear()

    def _heard(self, number: signal.Signals) -> None:
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._leave_and_end(number.name))

    async def _leave_and_end(self, why: str) -> None:
        try:
            await self.leave(why)
        finally:
            # What the nanny does about it, a nanny that stays knows best: it may be this process alone that is to go.
            await self._worker.close(nanny=False, reason=f"dtf-{why}")

    async def leave(self, why: str, within_s: float = math.inf) -> None:
        """Tell that the machine is to go, if there are tasks here, and wait until they have left it."""
        until = time.monotonic() + within_s
        while self.give(why) and time.monotonic() < until:
            await asyncio.sleep(LOOK_S)

    def give(self, why: str) -> bool:
        """Tell that the machine is to go, if there are tasks here. Returns whether there are."""
        has_tasks = self._has_tasks()
        if has_tasks and not self.why:
            logger.warning("The host %s is to go (%s)", self._worker.name, why)
            self.why = why
            self._tell()
        return has_tasks
