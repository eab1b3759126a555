"""Who looks at a cluster: the attached streams, and what is sent to them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from distributed.batched import BatchedSend
from distributed.comm.core import Comm, CommClosedError
from distributed.core import Status

MAX_VIEWER_BACKLOG = 100_000
"""Messages that a slow viewer may leave waiting before it is cut off; it resumes where it stopped."""

ARCHIVE = "archive"
"""The role of the cluster process: its stream does not keep the cluster alive, and it alone is told to close."""


class _Viewer:
    """One attached stream."""

    def __init__(self, comm: Comm, role: str, loop: Any) -> None:
        self.role = role
        self.stream = BatchedSend(interval="5ms", loop=loop)
        self.stream.start(comm)

    def send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(CommClosedError):  # noticed by the reader of its comm
            self.stream.send(message)
            if len(self.stream.buffer) > MAX_VIEWER_BACKLOG:
                self.stream.abort()


class Viewers:
    """The viewers of one controller. ``on_change()`` is called when one has come or gone."""

    def __init__(self, loop: Any, on_change: Callable[[], None]) -> None:
        self._loop = loop
        self._on_change = on_change
        self._viewers: set[_Viewer] = set()
        self.were_watching = False
        """Whether anybody but the archive has ever looked."""

    @property
    def are_watching(self) -> bool:
        """Whether anybody but the archive looks."""
        return any(viewer.role != ARCHIVE for viewer in self._viewers)

    def send(self, message: dict[str, Any], *, role: str = "") -> None:
        """Send to all, or to those of one role."""
        for viewer in list(self._viewers):
            if role in ("", viewer.role):
                viewer.send(message)

    async def serve(self, comm: Comm, role: str, first: Iterable[dict[str, Any]]) -> Status:
        """Send ``first``, then all that is sent to viewers, until the stream ends. What a Dask handler returns."""
        viewer = _Viewer(comm, role, self._loop)
        for message in first:
            viewer.send(message)
        self._viewers.add(viewer)
        self.were_watching = self.were_watching or role != ARCHIVE
        self._on_change()
        try:
            while True:
                await comm.read()
        except (CommClosedError, OSError):
            pass
        finally:
            self._viewers.discard(viewer)
            viewer.stream.abort()
            self._on_change()
        return Status.dont_reply
