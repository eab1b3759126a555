"""A viewer's copy of the marks that users set on runs, reread when the store changes."""

from __future__ import annotations

import threading
import time

import msgspec

from ...errors import Unavailable
from ...schema.run import RunInfo
from ...schema.run_marks import RunMarks, RunPatch
from .store import Store

LOOK_S = 1.0
"""Seconds between two checks for changes by other processes, unless the newest changes are requested."""


class Marked:
    """The marks of all runs. Thread-safe. Without a store, they exist only in this process."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._marks: dict[str, RunMarks] = {}
        self._version = 0
        self._looked = 0.0

    def look(self, *, now: bool = False) -> list[str]:
        """Adopt changes that other processes have made. Returns the ids of the runs with changed marks.

        Unless ``now``, the check is skipped within ``LOOK_S`` of the last one. Nothing changes while the store is
        unreadable.
        """
        if self._store is None or (not now and time.monotonic() - self._looked < LOOK_S):
            return []
        with self._lock:
            self._looked = time.monotonic()
            try:
                read = self._store.marks(self._version)
            except Unavailable:
                return []
            if read is None:
                return []
            before, (self._version, self._marks) = self._marks, read
            everyone = {*before, *self._marks}
            return [run_id for run_id in everyone if before.get(run_id) != self._marks.get(run_id)]

    def change(self, run_id: str, patch: RunPatch) -> None:
        """Change a run's marks. Raises Unavailable if they cannot be written."""
        with self._lock:  # otherwise, newer marks that are read in the meantime would be replaced with these
            if self._store is not None:
                changed = self._store.mark(run_id, lambda marks: patch.applied(marks, time.time()))
            else:
                changed = patch.applied(self._marks.get(run_id, RunMarks()), time.time())
            self._marks = {**self._marks, run_id: changed}

    def forget(self, run_id: str) -> None:
        """Forget the marks of a run that the store has deleted."""
        with self._lock:
            self._marks = {key: marks for key, marks in self._marks.items() if key != run_id}

    def onto(self, info: RunInfo) -> RunInfo:
        """Add the run's marks, and the name that the user has given it, to its summary. Returns the summary.

        An active run counts as not deleted: it was deleted because it was presumed lost, but its cluster still exists.
        """
        if (marks := self._marks.get(info.id)) is not None:
            is_alive = marks.deleted is not None and not info.state.is_final
            info.marks = msgspec.structs.replace(marks, deleted=None) if is_alive else marks
            info.name = marks.name or info.name
        return info
