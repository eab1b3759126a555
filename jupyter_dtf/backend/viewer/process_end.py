"""Watches for the end of cluster processes, as reported by the kernel."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from .connections import Connection


class ProcessEnd:
    """Watches one process at a time. Its methods must be called on its event loop."""

    def __init__(self) -> None:
        self._fd = -1

    @property
    def is_watched(self) -> bool:
        return self._fd >= 0

    def watch(self, connection: Connection, on_end: Callable[[], None]) -> None:
        """Call ``on_end()`` once when the cluster process ends. Replaces any previous watch.

        The process cannot be watched if the system has no process file descriptors (outside Linux) or the process is on
        another machine. Then only the broken link shows that the process has ended.
        """
        if connection.pid == os.getpid() or connection.is_elsewhere or not hasattr(os, "pidfd_open"):
            return
        self.forget()
        try:
            self._fd = os.pidfd_open(connection.pid)
        except OSError:
            return
        asyncio.get_running_loop().add_reader(self._fd, self._ended, on_end)

    def forget(self) -> None:
        if self.is_watched:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _ended(self, on_end: Callable[[], None]) -> None:
        self.forget()
        on_end()
