"""dask-jobqueue, without what importing it does: one of its modules takes over SIGINT, with ``sys.exit()``.

That fails in any thread but the main one, and ends a server or a kernel that a person only wanted to interrupt. Whoever
needs dask-jobqueue imports this first.
"""

from __future__ import annotations

import signal
from unittest.mock import patch

with patch.object(signal, "signal"):
    import dask_jobqueue

__all__ = ["dask_jobqueue"]
