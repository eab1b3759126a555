"""NVIDIA's management library (NVML), initialized once per process, and again after an error or a fork."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Nvml:
    """Keeps NVML initialized: initialization opens the driver and every GPU, and takes longer than reading values.

    Thread-safe; several threads may read at the same time. After an error, NVML is shut down as soon as no thread is
    reading, and initialized again by the next reading. Otherwise a replaced driver would not be found.
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
        """Return a context manager that provides ``pynvml``, initialized, for one reading.

        A reading that raises NVMLError counts as failed.

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
        """Reinitialize NVML for the next reading, because a GPU is lost or the driver is being replaced."""
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
