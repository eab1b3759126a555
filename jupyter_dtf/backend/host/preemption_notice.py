"""Handles preemption notices: before a machine goes away, its tasks are moved, then the Dask worker exits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import Callable

from distributed import Worker

from ..kinds.base import NOTICES

logger = logging.getLogger(__name__)

LOOK_S = 0.1
"""The interval in seconds between two checks of whether tasks remain."""


class Notice:
    """Handles preemption notices on one host.

    A host without tasks exits without a report. Therefore, the normal shutdown of a cluster, which ends the runs first,
    does not count as a notice, regardless of the signal.

    Args:
        worker: The Dask worker of this host.
        has_tasks: Returns whether there are tasks on this host.
        tell: Sends the state of this host, including ``why``, to the controller.
    """

    def __init__(self, worker: Worker, *, has_tasks: Callable[[], bool], tell: Callable[[], None]) -> None:
        self.why = ""
        """Why the machine is about to go away: the name of a signal, or another reason. Empty if it is not."""
        self._worker = worker
        self._has_tasks = has_tasks
        self._tell = tell
        self._taken: list[signal.Signals] = []
        self._leaving: asyncio.Task[None] | None = None

    def listen(self) -> None:
        """Handle the signals, but only in a process that a nanny has started for this worker alone.

        ``dask worker`` handles signals itself and closes its worker in its own way: the scheduler drops the worker
        immediately, which leaves no time to save anything.
        """
        if not self._worker.nanny or threading.current_thread() is not threading.main_thread():
            return
        for number in NOTICES:
            if signal.getsignal(number) is signal.SIG_DFL:
                asyncio.get_running_loop().add_signal_handler(number, self._heard, number)
                self._taken.append(number)

    def close(self) -> None:
        """Remove the signal handlers."""
        for number in self._taken:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                asyncio.get_running_loop().remove_signal_handler(number)
        self._taken.clear()

    def _heard(self, number: signal.Signals) -> None:
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._leave_and_end(number.name))

    async def _leave_and_end(self, why: str) -> None:
        try:
            while self.give(why):
                await asyncio.sleep(LOOK_S)
        finally:
            # Leave the nanny running to decide what to do: perhaps only this process has to end.
            await self._worker.close(nanny=False, reason=f"dtf-{why}")

    def give(self, why: str) -> bool:
        """Report that the machine is about to go away, if there are tasks here. Returns whether there are tasks."""
        has_tasks = self._has_tasks()
        if has_tasks and not self.why:
            logger.warning("The host %s is going away (%s)", self._worker.name, why)
            self.why = why
            self._tell()
        return has_tasks
