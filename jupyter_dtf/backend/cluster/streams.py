"""Who looks at a cluster: the attached streams, and what is sent to them.

Nothing is queued for a viewer. It has a place in the log of every run, and takes from there what comes next when it has
taken the last: a slow one holds nothing up and takes no memory, and one that has just come gets a long log in pieces.
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
"""The role of the cluster process: its stream does not keep the cluster alive, and it alone is told to close."""

MOST_MESSAGES = 500
MOST_BYTES = 256 << 10
"""In one piece, which a viewer follows without a pause."""
INTERVAL_S = 0.005
"""Between two pieces, for what comes together to go together."""
DESCRIBING_SHARE = 0.02
"""Of the time, that may go into describing the cluster anew. To send it and to read it takes about as long again."""


class _Place:
    """How far a viewer has been told of one run."""

    def __init__(self, run: Run, next_seq: int) -> None:
        self.run = run
        self.next_seq = next_seq
        self.is_described = False
        self.is_last = False
        """The controller does not keep the run: nothing more will come of it."""


class _Description:
    """The cluster's description, made once for all viewers, and no more often than it is worth.

    One of a thousand hosts takes as long as a hundred of their words: made after each of these, it would take all of
    the process's time. ``on_due()`` is called when it is time for the next.
    """

    def __init__(self, describe: Callable[[], Any], on_due: Callable[[], None]) -> None:
        self._describe = describe
        self._on_due = on_due
        self._plain: Any = None
        self.is_old = True
        """Whether it has to be made anew."""
        self._not_before = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def change(self) -> None:
        """Something in it is different."""
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
        """As it is now; None where it cannot be made."""
        if self.is_old:
            begun = time.perf_counter()
            try:
                self._plain = to_plain(self._describe())
            except Exception:  # the stream goes on
                logger.exception("The cluster could not be described to its viewers")
                return None
            self.is_old = False
            took_s = time.perf_counter() - begun
            self._not_before = asyncio.get_running_loop().time() + took_s / DESCRIBING_SHARE
        return self._plain


class _Viewer:
    """One attached stream. ``describe()`` gives the cluster's description as plain data."""

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
        """Begin: what each run is and how it is now, then the events that have not been seen."""
        for run in runs.values():
            self._places[run.id] = _Place(run, after.get(run.id, -1) + 1)
            self._due[run.id] = None

    def on_cluster(self) -> None:
        self._cluster_changed = True
        self._wake.set()

    def on_run(self, run: Run) -> None:
        """There is something new of a run."""
        if run.id not in self._places:
            self._places[run.id] = _Place(run, 0)
        self._due[run.id] = None
        self._wake.set()

    def say(self, op: str, *, last: bool) -> None:
        """A word on its own; the last one comes behind all that has happened."""
        (self._last_words if last else self._words).append(op)
        self._wake.set()

    def answer(self) -> None:
        """Say that the cluster is there."""
        if "pong" not in self._words:
            self.say("pong", last=False)

    def close(self) -> None:
        """End the stream."""
        self._comm.abort()

    def forget(self, run_id: str) -> None:
        """A run that the controller does not keep: what has not been told yet is told first."""
        if run_id in self._due:
            self._places[run_id].is_last = True
        else:
            self._places.pop(run_id, None)

    async def send(self) -> None:
        """Send what there is and what comes, for ever. Raises CommClosedError, OSError."""
        while True:
            await self._wake.wait()
            piece = self._piece()
            if piece:
                await self._comm.write(piece)
                if self.role == ARCHIVE:
                    for place in self._places.values():
                        place.run.taken(place.next_seq)
            await asyncio.sleep(0 if self._wake.is_set() else INTERVAL_S)

    def _piece(self) -> list[dict[str, Any]]:
        """The next messages. The wake-up is taken back where they are all there is."""
        piece: list[dict[str, Any]] = []
        size = 0
        if self._is_attached:
            piece += _take(self._words)
        else:
            piece += self._cluster()
            for place in self._places.values():  # all of them, before any long log
                piece += self._head(place)
        for run_id in list(self._due):
            for message in self._of_run(self._places[run_id]):
                piece.append(message)
                size += len(message.get("data", b""))
                if len(piece) >= MOST_MESSAGES or size >= MOST_BYTES:
                    del self._due[run_id]
                    self._due[run_id] = None  # the others first, the next time
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
        """The cluster, if it has changed: behind what has happened in its runs before."""
        if not self._cluster_changed:
            return []
        self._cluster_changed = False
        info = self._describe()
        return [] if info is None else [{"op": "cluster", "info": info}]

    def _of_run(self, place: _Place) -> Iterator[dict[str, Any]]:
        """What is new of one run: what it is, then its events."""
        run = place.run
        yield from self._head(place)
        while place.next_seq < len(run.log):
            seq = place.next_seq
            place.next_seq += 1
            yield {"op": "event", "run": run.id, "seq": seq, "data": run.log[seq]}

    def _head(self, place: _Place) -> list[dict[str, Any]]:
        """Once, before the first event: what a run is, where that is not known, and for who comes late how it is now.

        That summary is a cache, so that a list need not wait for a long log: it says no more than the events do.
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
    """The viewers of one controller. ``on_change()`` is called when one has come or gone; ``describe()`` gives the
    cluster's description.
    """

    def __init__(self, describe: Callable[[], Any], on_change: Callable[[], None]) -> None:
        self._description = _Description(describe, self._tell_cluster)
        self._on_change = on_change
        self._viewers: set[_Viewer] = set()
        self.were_watching = False
        """Whether anybody but the archive has ever looked."""
        self.archive_was_there = False

    @property
    def archive_is_there(self) -> bool:
        """Whether the cluster process looks."""
        return any(viewer.role == ARCHIVE for viewer in self._viewers)

    @property
    def are_watching(self) -> bool:
        """Whether anybody but the archive looks."""
        return any(viewer.role != ARCHIVE for viewer in self._viewers)

    def tell_cluster(self) -> None:
        """The cluster's description has changed."""
        self._description.change()

    def _tell_cluster(self) -> None:
        for viewer in self._viewers:
            viewer.on_cluster()

    def tell_run(self, run: Run) -> None:
        """There is a new run, or an event more of one."""
        for viewer in self._viewers:
            viewer.on_run(run)

    def tell_archive(self, op: str, *, last: bool = False) -> None:
        """A word for the archive; the last one comes behind everything that has happened."""
        for viewer in self._viewers:
            if viewer.role == ARCHIVE:
                viewer.say(op, last=last)

    def forget(self, run_id: str) -> None:
        """The controller does not keep a run any longer."""
        for viewer in self._viewers:
            viewer.forget(run_id)

    async def serve(
        self, comm: Comm, role: str, runs: Mapping[str, Run], after: Mapping[str, int], *, closing: bool
    ) -> Status:
        """Tell a viewer everything until the stream ends. What a Dask handler returns.

        ``after``: the last sequence number seen of each run. ``closing``: the archive is to be told so.
        """
        self._description.is_old = True  # who comes sees it as it is
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
                await comm.read()  # a ping: a viewer says nothing else
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
            comm.abort()  # which ends its reader too
