"""The store of runs, in SQLite. One process (the cluster's) writes a run, and many processes read it.

A ``Store`` may be used from several threads. A damaged file is moved aside and a new one is created. A file of a newer
version is read or written if it permits this (``store_file``); otherwise it is rejected and not changed. Fields of a
row that this version does not know are kept.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from ...errors import NotFound, Unavailable
from ...schema import disk_space, private_files
from ...schema.base import with_unknown
from ...schema.events import RunChanged, encode_event
from ...schema.metrics import headline
from ...schema.run import RunDescriptor, RunInfo, RunState, read_run
from ...schema.run_marks import RunMarks
from ..machine import paths
from . import marks_table
from .apply_event import apply_event, objectives_of
from .store_file import SCHEMA_VERSION, open_file, standing

__all__ = ["SCHEMA_VERSION", "Store"]

_CHUNK = 500

_log = logging.getLogger(__name__)
_decode_info = msgspec.msgpack.Decoder(RunInfo).decode  # for infos that this process has written itself


class Store:
    """A store of runs and their events.

    ``moved_aside`` is the new path of a damaged file, if one was moved when this store was opened. ``refusal`` is the
    reason why the file is not written to, if a newer version has made it read-only for this version.

    Every method raises Unavailable when the file cannot be read or written.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        """Open or create the file (mode 0600), by default ``paths.store_path()``.

        Raises Unavailable if the file cannot be opened, or is of a newer version that this version cannot read.
        """
        self.path = Path(path) if path is not None else paths.store_path()
        self.moved_aside: Path | None = None
        self._lock = threading.RLock()
        try:
            private_files.make_dir(self.path.parent)
            with _exclusive(self.path.with_name(self.path.name + ".lock")):  # one process creates or replaces the file
                try:
                    self._db, now = open_file(self.path)
                except sqlite3.DatabaseError as error:
                    if isinstance(error, sqlite3.OperationalError):  # locked, disk full, no permission: not damage
                        raise
                    self.moved_aside = _move_aside(self.path)
                    _log.warning("%s is damaged (%s); it was moved to %s", self.path, error, self.moved_aside)
                    self._db, now = open_file(self.path)
        except (OSError, sqlite3.Error) as error:
            if disk_space.is_full(self.path.parent):
                raise Unavailable(self._refusal(OSError(errno.ENOSPC, ""))) from error
            raise Unavailable(f"The store of runs at {self.path} cannot be opened: {error}") from error
        self.refusal = "" if now.is_writable else now.refusal(self.path)
        self._tables = self._version_of_tables()

    def close(self) -> None:
        """Close the file. Closing twice is harmless."""
        with self._lock:
            self._db.close()

    # -- writing ---------------------------------------------------------------------------------------------------

    def write(self, infos: Iterable[bytes | RunInfo], events: Iterable[tuple[str, int, bytes]]) -> None:
        """Write descriptions (``RunInfo``, encoded or not) and events (``(run, seq, data)``) in one transaction.

        Repeating a write has no further effect.
        """
        rows = []
        for item in infos:
            data = item if isinstance(item, bytes) else msgspec.msgpack.encode(item)
            info = _decode_info(item) if isinstance(item, bytes) else item
            rows.append((info.id, info.cluster, info.state.value, info.created, data))
        with self._transaction() as db:
            db.executemany(
                "INSERT OR REPLACE INTO runs (id, cluster, state, created, info) VALUES (?, ?, ?, ?, ?)", rows
            )
            db.executemany("INSERT OR IGNORE INTO events (run_id, seq, data) VALUES (?, ?, ?)", events)

    def put_run(self, info: RunInfo) -> None:
        """Write the description of a run, replacing an older one. Fields of newer versions are kept."""
        with self._transaction() as db:
            self._put(db, info)

    def append(self, run_id: str, events: Iterable[tuple[int, bytes]]) -> None:
        """Write events of a run; events already in the store are not changed."""
        self.write([], ((run_id, seq, data) for seq, data in events))

    def replace(self, events: Iterable[tuple[str, int, bytes]]) -> None:
        """Replace the data of existing events, given as ``(run, seq, data)``."""
        with self._transaction() as db:
            db.executemany(
                "UPDATE events SET data = ? WHERE run_id = ? AND seq = ?",
                ((data, run_id, seq) for run_id, seq, data in events),
            )

    def mark_lost(
        self, run_id: str, message: str, when: float | None = None, *, known: RunDescriptor | None = None
    ) -> RunInfo:
        """Mark a run whose cluster is gone as lost, by adding an event. A run that has ended is not changed.

        ``known``: the description to write if the cluster has not written one. Raises NotFound if there is no
        description at all.
        """
        with self._transaction() as db:
            try:
                info = self._info(db, run_id)
            except NotFound:
                if known is None:
                    raise
                info = RunInfo.of(known)
            if info.state.is_final:
                return info
            now = time.time() if when is None else when
            event = RunChanged(time=now, state=RunState.LOST, message=message)
            seq = self._next_seq(db, run_id)
            db.execute("INSERT INTO events (run_id, seq, data) VALUES (?, ?, ?)", (run_id, seq, encode_event(event)))
            apply_event(info, event)
            info.next_seq = seq + 1
            self._put(db, info)
        return info

    def delete(self, run_id: str) -> None:
        """Delete a run and its events. Raises NotFound. The caller must delete the files in its run_dir."""
        with self._transaction() as db:
            if db.execute("DELETE FROM runs WHERE id = ?", (run_id,)).rowcount == 0:
                raise _no_run(run_id)
            db.execute("DELETE FROM events WHERE run_id = ?", (run_id,))
            marks_table.forget(db, [run_id])

    def mark(self, run_id: str, how: Callable[[RunMarks], RunMarks]) -> RunMarks:
        """Replace a run's marks with ``how(marks)`` and return the result."""
        with self._transaction() as db:
            return marks_table.change(db, run_id, how)

    def prune(
        self,
        *,
        max_age_s: float | None = None,
        max_runs: int | None = None,
        deleted_s: float | None = None,
    ) -> list[str]:
        """Remove old runs that have ended, and return their ids.

        These are the runs that were created more than ``max_age_s`` seconds ago, the oldest in excess of ``max_runs``,
        and the runs that users deleted more than ``deleted_s`` seconds ago. A run that was presumed lost when it was
        deleted but is still active is kept.
        """
        final = tuple(state.value for state in RunState if state.is_final)
        ended = f"SELECT id FROM runs WHERE state IN ({', '.join('?' * len(final))})"
        with self._transaction() as db:
            ids: list[str] = []
            if max_age_s is not None:
                oldest = time.time() - max_age_s
                ids += _column(db, f"{ended} AND created < ? ORDER BY created", (*final, oldest))
            if max_runs is not None:
                ids += _column(db, f"{ended} ORDER BY created DESC, id LIMIT -1 OFFSET ?", (*final, max(max_runs, 0)))
            if deleted_s is not None:
                latest = time.time() - deleted_s
                gone = marks_table.deleted_before(db, latest)
                ids += [i for i in _column(db, ended, final) if i in gone]
            ids = list(dict.fromkeys(ids))
            db.executemany("DELETE FROM runs WHERE id = ?", [(i,) for i in ids])
            db.executemany("DELETE FROM events WHERE run_id = ?", [(i,) for i in ids])
            marks_table.bury(db, ids)
        return ids

    # -- reading ---------------------------------------------------------------------------------------------------

    def run(self, run_id: str) -> RunInfo:
        """Return the description of a run, as last written. Raises NotFound."""
        with self._reading() as db:
            return self._info(db, run_id)

    def runs(self, limit: int | None = None) -> list[RunInfo]:
        """Return the newest ``limit`` runs (default: all), newest first."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT id, info FROM runs ORDER BY created DESC, id LIMIT ?", (-1 if limit is None else limit,)
            )
            found = []
            for run_id, data in rows:  # skip unreadable runs, and return the others
                try:
                    found.append(_decoded(run_id, data))
                except Unavailable as error:
                    _log.warning("%s", error)
            return found

    def marks(self, known: int = 0) -> tuple[int, dict[str, RunMarks]] | None:
        """Return the marks' version and the marks, keyed by run. Return None if ``known`` is still the version."""
        with self._reading() as db:
            now = marks_table.version(db)
            return None if now == known else (now, marks_table.read(db))

    def next_seq(self, run_id: str) -> int:
        """Return one more than the last sequence number stored for a run; 0 if there is none."""
        with self._reading() as db:
            return self._next_seq(db, run_id)

    def events(self, run_id: str, after: int = -1) -> Iterator[tuple[int, bytes]]:
        """Yield the run's events after sequence number ``after`` as ``(seq, data)``, oldest first, read lazily."""
        while True:
            with self._reading() as db:
                rows: Sequence[tuple[int, bytes]] = db.execute(
                    "SELECT seq, data FROM events WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?",
                    (run_id, after, _CHUNK),
                ).fetchall()
            yield from rows
            if len(rows) < _CHUNK:
                return
            after = rows[-1][0]

    # -- inside ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as db:
            if self.refusal:
                raise Unavailable(self.refusal)
            db.execute("BEGIN IMMEDIATE")
            try:
                self._look(db)
                if self.refusal:
                    raise Unavailable(self.refusal)
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                self._look(self._db)
                yield self._db
            except sqlite3.Error as error:
                raise Unavailable(self._refusal(error)) from error

    def _version_of_tables(self) -> int:
        """Return the counter that SQLite increments when any process changes the tables."""
        return int(self._db.execute("PRAGMA schema_version").fetchone()[0])

    def _look(self, db: sqlite3.Connection) -> None:
        """Check whether a newer version has migrated the file, and whether this version may still use it."""
        if (tables := self._version_of_tables()) == self._tables:
            return
        now = standing(db)
        if not now.is_readable:
            raise Unavailable(now.refusal(self.path))
        self.refusal = "" if now.is_writable else now.refusal(self.path)
        self._tables = tables

    def _refusal(self, error: Exception) -> str:
        """Explain why the file cannot be used and, if the disk is full, how much is free and what to do."""
        full = "full" in str(error) or (isinstance(error, OSError) and error.errno in disk_space.FULL)
        if full or ("I/O" in str(error) and disk_space.is_full(self.path.parent)):
            refused = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return disk_space.refusal(self.path.parent, "The store of runs", refused)
        return f"The store of runs at {self.path} cannot be used: {error}"

    @staticmethod
    def _info(db: sqlite3.Connection, run_id: str) -> RunInfo:
        row = db.execute("SELECT info FROM runs WHERE id = ?", (run_id,)).fetchone()
        if row is None:
            raise _no_run(run_id)
        return _decoded(run_id, row[0])

    @staticmethod
    def _put(db: sqlite3.Connection, info: RunInfo) -> None:
        row = db.execute("SELECT info FROM runs WHERE id = ?", (info.id,)).fetchone()
        raw = None
        with contextlib.suppress(msgspec.MsgspecError, TypeError, ValueError, RecursionError):  # a damaged row
            raw = msgspec.msgpack.decode(row[0]) if row is not None else None
        data = msgspec.msgpack.encode(with_unknown(raw, info))
        db.execute(
            "INSERT OR REPLACE INTO runs (id, cluster, state, created, info) VALUES (?, ?, ?, ?, ?)",
            (info.id, info.cluster, info.state.value, info.created, data),
        )

    @staticmethod
    def _next_seq(db: sqlite3.Connection, run_id: str) -> int:
        row = db.execute("SELECT MAX(seq) FROM events WHERE run_id = ?", (run_id,)).fetchone()
        return 0 if row[0] is None else int(row[0]) + 1


def _read_info(data: Any) -> RunInfo:
    try:
        return _decode_info(data)
    except msgspec.ValidationError:
        return read_run(msgspec.msgpack.decode(data))


def _decoded(run_id: object, data: object) -> RunInfo:
    try:
        info = _read_info(data)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise Unavailable(
            f"The description of the run {run_id!r:.100} in the store cannot be decoded: {error}"
        ) from None
    if info.latest and not info.headline:  # written before this field existed
        info.headline = headline(info.latest, info.state.is_final, objectives_of(info))
    if info.latest and not info.points_seq:
        info.points_seq = info.next_seq
    return info


def _no_run(run_id: str) -> NotFound:
    return NotFound(f"There is no run with the id {run_id!r:.100}")


def _column(db: sqlite3.Connection, query: str, values: tuple[object, ...]) -> list[str]:
    return [row[0] for row in db.execute(query, values)]


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _move_aside(path: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    aside = path.with_name(f"{path.name}.damaged-{stamp}-{os.getpid()}")
    os.replace(path, aside)
    for suffix in ("-wal", "-shm"):
        side = path.with_name(path.name + suffix)
        if side.exists():
            os.replace(side, aside.with_name(aside.name + suffix))
    return aside
