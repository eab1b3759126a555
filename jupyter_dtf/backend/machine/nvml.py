"""NVIDIA's management library (NVML), initialized once in a process, and again after an error or a fork."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Nvml:
    """Initializing NVML opens the driver and every GPU, which takes longer than what is then read.

    Threads may read at the same time. What has failed is shut down when nobody reads any more, and the next reading
    initializes it: a driver that was replaced is not found otherwise.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew without shutting anything down: after a fork, the driver's files are shared with the parent."""
        self._lock = threading.Lock()
        self._initialized: Any = None
        self._readers = 0
        self._has_failed = False

    @contextmanager
    def reading(self) -> Iterator[Any]:
        """``pynvml``, initialized, for the time of one reading. One that raises NVMLError has failed.

        Raises:
            ImportError: If ``nvidia-ml-py`` is not installed.
            pynvml.NVMLError: If there is no driver.
        """
        import pynvml

        with self._lock:
            if self._initialized is not pynvml:
                pynvml.nvmlInit()
                self._initialized, self._has_failed = pynvml, False
            self._readers += 1
        try:
            yield pynvml
        except pynvml.NVMLError:
            self.failed()
            raise
        finally:
            self._end(pynvml)

    def failed(self) -> None:
        """Initialize it again for the next reading: a GPU is lost, or the driver is being replaced."""
        self._has_failed = True

    def _end(self, library: Any) -> None:
        with self._lock:
            self._readers -= 1
            if self._has_failed and not self._readers:
                self._initialized, self._has_failed = None, False
                try:
                    library.nvmlShutdown()
                except library.NVMLError:  # there is nothing left to shut down
                    return


NVML = Nvml()
"""That of this process."""
os.register_at_fork(after_in_child=NVML.forget)
