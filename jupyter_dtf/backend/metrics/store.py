"""The runs of the past, in SQLite. One process writes a run (its cluster's); many read.

A ``Store`` may be used from several threads. A file that is damaged is moved aside and a new one begun; a file that a
newer version wrote is left alone and refused.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ...errors import NotFound, Unavailable
from ...schema.events import RunChanged, encode_event
from ...schema.run import RunInfo, RunState
from .. import places

SCHEMA_VERSION = 1
_APPLICATION_ID = 0x44544652  # "DTFR": tells our file from another program's
_CHUNK = 500

# Infos are msgpack, not JSON: a diverged loss is NaN, which JSON cannot say.
_TABLES = """
CREATE TABLE runs (id TEXT PRIMARY KEY, cluster TEXT NOT NULL, state TEXT NOT NULL, created REAL NOT NULL,
                   info BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX runs_created ON runs (created DESC);
CREATE TABLE events (run_id TEXT NOT NULL, seq INTEGER NOT NULL, data BLOB NOT NULL,
                     PRIMARY KEY (run_id, seq)) WITHOUT ROWID;
"""

_log = logging.getLogger(__name__)
_decode_info = msgspec.msgpack.Decoder(RunInfo).decode


class Store:
    """Runs and their events. ``moved_aside`` is where a damaged file went when this store was opened, if one did.

    Every method raises Unavailable when the file cannot be read or written.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        """Open or make the file (mode 0600), by default ``places.store_path()``.

        Raises Unavailable if it cannot be opened, or if a newer version wrote it.
        """
        self.path = Path(path) if path is not None else places.store_path()
        self.moved_aside: Path | None = None
        self._lock = threading.RLock()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with _exclusive(self.path.with_name(self.path.name + ".lock")):  # one process makes or replaces the file
                try:
                    self._db = _open(self.path)
                except sqlite3.DatabaseError as error:
                    if isinstance(error, sqlite3.OperationalError):  # locked, disk full, no permission: not damage
                        raise
                    self.moved_aside = _move_aside(self.path)
                    _log.warning("%s is damaged (%s); it was moved to %s", self.path, error, self.moved_aside)
                    self._db = _open(self.path)
        except (OSError, sqlite3.Error) as error:
            raise Unavailable(
                f"The store of runs must be a file that can be read and written: {error}. Received: {self.path}"
            ) from error

    def close(self) -> None:
        """Close the file. Closing twice is harmless."""
        with self._lock:
            self._db.close()

    # -- writing ---------------------------------------------------------------------------------------------------

    def write(self, infos: Iterable[bytes | RunInfo], events: Iterable[tuple[str, int, bytes]]) -> None:
        """Write descriptions (RunInfo, or its msgpack) and events (run, seq, data) in one transaction.

        What is written again is the same as written once.
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
        """Write the description of a run in place of an older one."""
        self.write([info], [])

    def append(self, run_id: str, events: Iterable[tuple[int, bytes]]) -> None:
        """Write events of a run; those already there are left as they are."""
        self.write([], ((run_id, seq, data) for seq, data in events))

    def mark_lost(self, run_id: str, message: str, when: float | None = None) -> RunInfo:
        """End a run whose cluster is gone: an event of its own says so. A run that has ended stays as it is.

        Raises NotFound.
        """
        with self._transaction() as db:
            info = self._info(db, run_id)
            if info.state.is_final:
                return info
            now = time.time() if when is None else when
            event = RunChanged(time=now, state=RunState.LOST, message=message)
            seq = self._next_seq(db, run_id)
            db.execute("INSERT INTO events (run_id, seq, data) VALUES (?, ?, ?)", (run_id, seq, encode_event(event)))
            info.state, info.message, info.ended, info.next_seq = RunState.LOST, message, now, seq + 1
            db.execute(
                "UPDATE runs SET state = ?, info = ? WHERE id = ?",
                (info.state.value, msgspec.msgpack.encode(info), run_id),
            )
        return info

    def delete(self, run_id: str) -> None:
        """Forget a run and its events. Raises NotFound. Files of its run_dir are not touched."""
        with self._transaction() as db:
            if db.execute("DELETE FROM runs WHERE id = ?", (run_id,)).rowcount == 0:
                raise _no_run(run_id)
            db.execute("DELETE FROM events WHERE run_id = ?", (run_id,))

    def prune(self, *, max_age_s: float | None = None, max_runs: int | None = None) -> list[str]:
        """Delete ended runs created longer ago than ``max_age_s``, and the oldest beyond ``max_runs``; their ids."""
        final = tuple(state.value for state in RunState if state.is_final)
        ended = f"SELECT id FROM runs WHERE state IN ({', '.join('?' * len(final))})"
        with self._transaction() as db:
            ids: list[str] = []
            if max_age_s is not None:
                oldest = time.time() - max_age_s
                ids += _column(db, f"{ended} AND created < ? ORDER BY created", (*final, oldest))
            if max_runs is not None:
                ids += _column(db, f"{ended} ORDER BY created DESC, id LIMIT -1 OFFSET ?", (*final, max(max_runs, 0)))
            ids = list(dict.fromkeys(ids))
            db.executemany("DELETE FROM runs WHERE id = ?", [(i,) for i in ids])
            db.executemany("DELETE FROM events WHERE run_id = ?", [(i,) for i in ids])
        return ids

    # -- reading ---------------------------------------------------------------------------------------------------

    def run(self, run_id: str) -> RunInfo:
        """The description of a run, as last written. Raises NotFound."""
        with self._reading() as db:
            return self._info(db, run_id)

    def runs(self, limit: int | None = None) -> list[RunInfo]:
        """The newest ``limit`` runs (all without one), newest first."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT info FROM runs ORDER BY created DESC, id LIMIT ?", (-1 if limit is None else limit,)
            )
            return [_decode_info(data) for (data,) in rows]

    def next_seq(self, run_id: str) -> int:
        """One more than the last sequence number stored of a run; 0 where there is none."""
        with self._reading() as db:
            return self._next_seq(db, run_id)

    def events(self, run_id: str, after: int = -1) -> Iterator[tuple[int, bytes]]:
        """(seq, data) of the run's events after ``after``, oldest first, read as they are asked for."""
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
            db.execute("BEGIN IMMEDIATE")
            try:
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
                yield self._db
            except sqlite3.Error as error:
                raise Unavailable(f"The store of runs at {self.path} cannot be used: {error}") from error

    @staticmethod
    def _info(db: sqlite3.Connection, run_id: str) -> RunInfo:
        row = db.execute("SELECT info FROM runs WHERE id = ?", (run_id,)).fetchone()
        if row is None:
            raise _no_run(run_id)
        return _decode_info(row[0])

    @staticmethod
    def _next_seq(db: sqlite3.Connection, run_id: str) -> int:
        row = db.execute("SELECT MAX(seq) FROM events WHERE run_id = ?", (run_id,)).fetchone()
        return 0 if row[0] is None else int(row[0]) + 1


def _no_run(run_id: str) -> NotFound:
    return NotFound(f"A run is named by its id. Received: {run_id!r:.100}, which no run has")


def _column(db: sqlite3.Connection, query: str, values: tuple[object, ...]) -> list[str]:
    return [row[0] for row in db.execute(query, values)]


def _open(path: Path) -> sqlite3.Connection:
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # before SQLite makes it readable to others
    db = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
    try:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise Unavailable(
                f"This version reads stores of schema {SCHEMA_VERSION} and older; update jupyter_dtf, or set "
                f"JUPYTER_DTF_DATA_DIR to another folder. Received: {path} of schema {version}"
            )
        if version == 0 and db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
            raise sqlite3.DatabaseError("another program's database")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        if version == 0:
            db.executescript(
                f"BEGIN; {_TABLES} PRAGMA application_id = {_APPLICATION_ID}; "
                f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            )
        tables = set(_column(db, "SELECT name FROM sqlite_master WHERE type = 'table'", ()))
        if not {"runs", "events"} <= tables:
            raise sqlite3.DatabaseError(f"its tables are {sorted(tables)}")
    except BaseException:
        db.close()
        raise
    return db


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
