"""NVIDIA's management library (NVML), initialized once per process, and again after an error or a fork."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Nvml:
    """Keeps NVML initialized, because initialization opens the driver and every GPU and takes longer than a reading.

    Thread-safe; several threads may read at the same time. After an error, NVML is shut down once no thread is reading
    and initialized again by the next reading. Otherwise a replaced driver would never be detected.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Reset the state without shutting NVML down: after a fork, the parent still uses the driver's open files."""
        self._lock = threading.Lock()
        self._initialized: Any = None
        self._readers = 0
        self._has_failed = False

    @contextmanager
    def reading(self) -> Iterator[Any]:
        """Provide the initialized ``pynvml`` module within the block, which performs one reading.

        If the block raises NVMLError, NVML is initialized again before the next reading.

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
        """Request that NVML be initialized again, because a GPU is lost or the driver is being replaced."""
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
"""The instance of this process."""
os.register_at_fork(after_in_child=NVML.forget)
