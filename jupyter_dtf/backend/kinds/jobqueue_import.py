"""Imports dask-jobqueue without a side effect: one of its modules installs a SIGINT handler that calls ``sys.exit()``.

Installing the handler fails outside the main thread, and the handler ends a server or a kernel that a person only
wanted to interrupt. Every module that needs dask-jobqueue must import this one first.
"""

from __future__ import annotations

import signal
from unittest.mock import patch

with patch.object(signal, "signal"):
    import dask_jobqueue

__all__ = ["dask_jobqueue"]
