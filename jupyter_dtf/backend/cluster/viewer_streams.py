"""The streams of a cluster's viewers, and the messages sent to them.

Nothing is queued per viewer. Each viewer has a position in the log of every run, and is sent the events after that
position when it has received the previous ones. So a slow viewer delays nothing and costs no memory, and a new viewer
receives a long log in batches.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from distributed.comm.core import Comm, CommClosedError
from distributed.core import Status

from ...schema.base import to_plain
from .active_run import Run

logger = logging.getLogger(__name__)

ARCHIVE = "archive"
"""The role of the cluster process: its stream does not keep the cluster alive, and only it is asked to close."""

MOST_MESSAGES = 500
MOST_BYTES = 256 << 10
"""The maximum size of one batch, which a viewer processes without yielding to its event loop."""
INTERVAL_S = 0.005
"""The pause between two batches, so that simultaneous events are sent together."""
DESCRIBING_SHARE = 0.02
"""The maximum fraction of time spent describing the cluster. Sending and reading the description doubles this time."""


class _Place:
    """A viewer's position in the log of one run."""

    def __init__(self, run: Run, next_seq: int) -> None:
        self.run = run
        self.next_seq = next_seq
        self.is_described = False
        self.is_last = False
        """Whether the controller has dropped the run, so that no more events will follow."""


class _Description:
    """The cluster's description, created once for all viewers, and at a limited rate.

    Describing a thousand hosts takes as long as handling a hundred of their reports, so a description after every
    report would take all of the process's time. ``on_due()`` is called when a new description is due.
    """

    def __init__(self, describe: Callable[[], Any], on_due: Callable[[], None]) -> None:
        self._describe = describe
        self._on_due = on_due
        self._plain: Any = None
        self.is_old = True
        """Whether the description is out of date."""
        self._not_before = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def change(self) -> None:
        """Mark the description as out of date, because something in it has changed."""
        self.is_old = True
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        if (wait_s := self._not_before - loop.time()) > 0:
            self._timer = loop.call_later(wait_s, self._due)
        else:
            self._due()

    def _due(self) -> None:
        self._timer = None
        self._on_due()

    def plain(self) -> Any:
        """Return the current description as plain data, or None if it cannot be created."""
        if self.is_old:
            begun = time.perf_counter()
            try:
                self._plain = to_plain(self._describe())
            except Exception:  # the stream must continue
                logger.exception("The cluster could not be described to its viewers")
                return None
            self.is_old = False
            took_s = time.perf_counter() - begun
            self._not_before = asyncio.get_running_loop().time() + took_s / DESCRIBING_SHARE
        return self._plain


class _Viewer:
    """One attached stream. ``describe()`` returns the cluster's description as plain data."""

    def __init__(self, comm: Comm, role: str, describe: Callable[[], Any]) -> None:
        self.role = role
        self._comm = comm
        self._describe = describe
        self._wake = asyncio.Event()
        self._wake.set()
        self._cluster_changed = True
        self._is_attached = False
        self._places: dict[str, _Place] = {}
        self._due: dict[str, None] = {}
        self._words: list[str] = []
        self._last_words: list[str] = []

    def attach(self, runs: Mapping[str, Run], after: Mapping[str, int]) -> None:
        """Begin the stream: first the state of each run, then the events that the viewer has not seen."""
        for run in runs.values():
            self._places[run.id] = _Place(run, after.get(run.id, -1) + 1)
            self._due[run.id] = None

    def on_cluster(self) -> None:
        self._cluster_changed = True
        self._wake.set()

    def on_run(self, run: Run) -> None:
        """Schedule sending the new events of a run."""
        if run.id not in self._places:
            self._places[run.id] = _Place(run, 0)
        self._due[run.id] = None
        self._wake.set()

    def say(self, op: str, *, last: bool) -> None:
        """Send a message that consists of an operation; if ``last``, after all events so far."""
        (self._last_words if last else self._words).append(op)
        self._wake.set()

    def answer(self) -> None:
        """Reply to a ping."""
        if "pong" not in self._words:
            self.say("pong", last=False)

    def close(self) -> None:
        """End the stream."""
        self._comm.abort()

    def forget(self, run_id: str) -> None:
        """Drop a run after sending its remaining events."""
        if run_id in self._due:
            self._places[run_id].is_last = True
        else:
            self._places.pop(run_id, None)

    async def send(self) -> None:
        """Send messages as they become available, until cancelled. Raises CommClosedError, OSError."""
        while True:
            await self._wake.wait()
            piece = self._piece()
            if piece:
                await self._comm.write(piece)
                if self.role == ARCHIVE:
                    for place in self._places.values():
                        place.run.log.taken(place.next_seq)
            await asyncio.sleep(0 if self._wake.is_set() else INTERVAL_S)

    def _piece(self) -> list[dict[str, Any]]:
        """Return the next batch of messages. If no messages remain after it, ``_wake`` is cleared."""
        piece: list[dict[str, Any]] = []
        size = 0
        if self._is_attached:
            piece += _take(self._words)
        else:
            piece += self._cluster()
            for place in self._places.values():  # the states of all runs come before any long log
                piece += self._head(place)
        for run_id in list(self._due):
            for message in self._of_run(self._places[run_id]):
                piece.append(message)
                size += len(message.get("data", b""))
                if len(piece) >= MOST_MESSAGES or size >= MOST_BYTES:
                    del self._due[run_id]
                    self._due[run_id] = None  # let the other runs go first next time
                    return piece + self._cluster()
            del self._due[run_id]
            if self._places[run_id].is_last:
                del self._places[run_id]
        if not self._is_attached:
            self._is_attached = True
            piece.append({"op": "attached"})
        piece += _take(self._words) + _take(self._last_words)
        self._wake.clear()
        return piece + self._cluster()

    def _cluster(self) -> list[dict[str, Any]]:
        """Return the message that describes the cluster, or an empty list if nothing has changed since the last one.

        It is sent after the events that precede the change.
        """
        if not self._cluster_changed:
            return []
        self._cluster_changed = False
        info = self._describe()
        return [] if info is None else [{"op": "cluster", "info": info}]

    def _of_run(self, place: _Place) -> Iterator[dict[str, Any]]:
        """Yield the new messages of one run: its descriptor, then its events."""
        run = place.run
        yield from self._head(place)
        while place.next_seq < len(run.log):
            seq = place.next_seq
            place.next_seq += 1
            yield {"op": "event", "run": run.id, "seq": seq, "data": run.log[seq]}

    def _head(self, place: _Place) -> list[dict[str, Any]]:
        """Return the messages that precede a run's first event: its descriptor if the viewer does not know it, and a
        summary if the viewer has just attached. Empty from the second call on.

        The summary contains only information from the events. It lets a list of runs be shown before a long log has
        arrived.
        """
        if place.is_described:
            return []
        place.is_described = True
        run, told = place.run, []
        if place.next_seq == 0:
            told.append({"op": "run", "info": to_plain(run.info.descriptor)})
        if not self._is_attached and place.next_seq < run.info.next_seq and self.role != ARCHIVE:
            told.append({"op": "summary", "info": to_plain(run.info)})
        return told


def _take(words: list[str]) -> list[dict[str, Any]]:
    taken = [{"op": op} for op in words]
    words.clear()
    return taken


class Viewers:
    """The viewers of one controller.

    ``on_change()`` is called when a viewer has attached or left; ``describe()`` returns the cluster's description.
    """

    def __init__(self, describe: Callable[[], Any], on_change: Callable[[], None]) -> None:
        self._description = _Description(describe, self._tell_cluster)
        self._on_change = on_change
        self._viewers: set[_Viewer] = set()
        self.were_watching = False
        """Whether a viewer other than the archive has ever been attached."""
        self.archive_was_there = False

    @property
    def archive_is_there(self) -> bool:
        """Whether the cluster process is attached."""
        return any(viewer.role == ARCHIVE for viewer in self._viewers)

    @property
    def are_watching(self) -> bool:
        """Whether a viewer other than the archive is attached."""
        return any(viewer.role != ARCHIVE for viewer in self._viewers)

    def tell_cluster(self) -> None:
        """Handle a change to the cluster's description."""
        self._description.change()

    def _tell_cluster(self) -> None:
        for viewer in self._viewers:
            viewer.on_cluster()

    def tell_run(self, run: Run) -> None:
        """Handle a new run, or a new event of a run."""
        for viewer in self._viewers:
            viewer.on_run(run)

    def tell_archive(self, op: str, *, last: bool = False) -> None:
        """Send an operation to the archive; if ``last``, after all events so far."""
        for viewer in self._viewers:
            if viewer.role == ARCHIVE:
                viewer.say(op, last=last)

    def forget(self, run_id: str) -> None:
        """Drop a run that the controller no longer keeps."""
        for viewer in self._viewers:
            viewer.forget(run_id)

    async def serve(
        self, comm: Comm, role: str, runs: Mapping[str, Run], after: Mapping[str, int], *, closing: bool
    ) -> Status:
        """Stream everything to a viewer until the connection ends.

        Args:
            comm: The connection.
            role: ``viewer`` or ``archive``.
            runs: The runs, keyed by id.
            after: The last sequence number that the viewer has seen, keyed by run.
            closing: Whether the cluster is closing. If so, the archive is notified.

        Returns:
            The status that a Dask handler must return.
        """
        self._description.is_old = True  # a new viewer gets the current state
        viewer = _Viewer(comm, role, self._description.plain)
        viewer.attach(runs, after)
        if closing and role == ARCHIVE:
            viewer.say("close", last=False)
        self._viewers.add(viewer)
        self.were_watching = self.were_watching or role != ARCHIVE
        self.archive_was_there = self.archive_was_there or role == ARCHIVE
        self._on_change()
        sending = asyncio.get_running_loop().create_task(self._send(viewer, comm), name=f"jupyter_dtf {role}")
        try:
            while True:
                await comm.read()  # a ping: viewers send nothing else
                viewer.answer()
        except (CommClosedError, OSError):
            pass
        finally:
            self._viewers.discard(viewer)
            sending.cancel()
            comm.abort()
            self._on_change()
        return Status.dont_reply

    def close(self) -> None:
        """End all streams."""
        for viewer in self._viewers:
            viewer.close()

    async def _send(self, viewer: _Viewer, comm: Comm) -> None:
        try:
            with contextlib.suppress(CommClosedError, OSError):
                await viewer.send()
        finally:
            comm.abort()  # this also ends the loop that reads from it
