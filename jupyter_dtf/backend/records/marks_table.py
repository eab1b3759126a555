"""The table of the marks that users set on runs (``schema/run_marks.py``), in the store's file."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable, Iterable

import msgspec

from ...schema.base import with_unknown
from ...schema.run_marks import RunMarks

CREATE = "CREATE TABLE IF NOT EXISTS marks (run_id TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID"
BURIED_S = 90 * 86_400
"""How long deletions are remembered: longer than any cluster exists, because a cluster may list deleted runs again."""
_VERSION = "marks"
"""The row of the table ``about`` with a number that each change increments: readers can skip unchanged marks."""


def version(db: sqlite3.Connection) -> int:
    """Return a number that each change to the marks increments."""
    row = db.execute("SELECT value FROM about WHERE name = ?", (_VERSION,)).fetchone()
    return int(row[0]) if row is not None else 0


def read(db: sqlite3.Connection) -> dict[str, RunMarks]:
    """Return the marks of all runs that have any. Unreadable rows are skipped."""
    found = {}
    for run_id, data in db.execute("SELECT run_id, data FROM marks"):
        try:
            found[run_id] = msgspec.msgpack.decode(data, type=RunMarks)
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
            continue
    return found


def change(db: sqlite3.Connection, run_id: str, how: Callable[[RunMarks], RunMarks]) -> RunMarks:
    """Replace a run's marks with ``how(marks)`` and return the result. Fields of newer versions are kept."""
    row = db.execute("SELECT data FROM marks WHERE run_id = ?", (run_id,)).fetchone()
    try:
        raw = msgspec.msgpack.decode(row[0]) if row is not None else {}
        before = msgspec.convert(raw, RunMarks)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):  # damaged
        raw, before = {}, RunMarks()
    after = how(before)
    data = msgspec.msgpack.encode(with_unknown(raw, after))
    db.execute("INSERT OR REPLACE INTO marks (run_id, data) VALUES (?, ?)", (run_id, data))
    _count(db)
    return after


def forget(db: sqlite3.Connection, run_ids: Iterable[str]) -> None:
    """Remove the marks of these runs."""
    gone = db.executemany("DELETE FROM marks WHERE run_id = ?", [(run_id,) for run_id in run_ids]).rowcount
    if gone > 0:
        _count(db)


def deleted_before(db: sqlite3.Connection, when: float) -> set[str]:
    """Return the ids of the runs that users deleted before ``when`` (seconds since the epoch)."""
    return {run_id for run_id, marks in read(db).items() if marks.deleted is not None and marks.deleted < when}


def bury(db: sqlite3.Connection, run_ids: Iterable[str]) -> None:
    """Remove the marks of runs that are removed from the store. Deletions by users are remembered for ``BURIED_S``."""
    deleted = deleted_before(db, math.inf)
    run_ids = set(run_ids)
    for run_id in run_ids & deleted:
        change(db, run_id, lambda marks: RunMarks(deleted=marks.deleted))
    rows = db.execute("SELECT run_id FROM marks WHERE run_id NOT IN (SELECT id FROM runs)")
    old = {run_id for (run_id,) in rows} & deleted_before(db, time.time() - BURIED_S)
    forget(db, sorted(run_ids - deleted | old))


def _count(db: sqlite3.Connection) -> None:
    db.execute("INSERT OR REPLACE INTO about (name, value) VALUES (?, ?)", (_VERSION, str(version(db) + 1)))
