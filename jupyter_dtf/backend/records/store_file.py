"""Creates, opens and migrates the store's file. Files that only newer versions can use are not changed.

A file states which versions may use it. SQLite's ``user_version`` is the oldest schema whose code can read the file;
the table ``about`` has the file's own schema, and the oldest schema whose code may write to the file (``writers``).
Versions older than that table check only ``user_version``.

* For any change to the tables, increment ``SCHEMA_VERSION`` and add a step that migrates a file of the previous schema.
* For a change that older code would misread, also set ``READERS`` to the new schema. For a change after which older
  code would damage the file by writing to it, also set ``WRITERS`` to the new schema.

The contents of rows (``RunInfo``, events) are not part of the schema: ``schema.protocol`` describes how they may grow.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..._version import __version__
from ...errors import Unavailable
from ...schema import private_files
from . import marks_table

SCHEMA_VERSION = 3
READERS = 1
"""The oldest schema whose code can read a file of the current schema."""
WRITERS = 1
"""The oldest schema whose code may write to a file of the current schema."""
_APPLICATION_ID = 0x44544652  # "DTFR": distinguishes our file from another program's

# Infos are msgpack, not JSON: a diverged loss is NaN, which JSON does not have.
_TABLES = (
    """CREATE TABLE runs (id TEXT PRIMARY KEY, cluster TEXT NOT NULL, state TEXT NOT NULL, created REAL NOT NULL,
                          info BLOB NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX runs_created ON runs (created DESC)",
    """CREATE TABLE events (run_id TEXT NOT NULL, seq INTEGER NOT NULL, data BLOB NOT NULL,
                            PRIMARY KEY (run_id, seq)) WITHOUT ROWID""",
)
_ABOUT = "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Step:
    """A migration from the previous schema to ``schema``. If it ``destroys`` data, a copy of the file is kept."""

    schema: int
    take: Callable[[sqlite3.Connection], object]
    destroys: bool = False


STEPS = (Step(2, lambda db: db.execute(_ABOUT)), Step(3, lambda db: db.execute(marks_table.CREATE)))


@dataclass(frozen=True)
class Standing:
    """The versions that a file states about itself. ``schema`` is 0 for an empty file."""

    schema: int
    readers: int
    writers: int
    release: str

    @property
    def is_readable(self) -> bool:
        return self.readers <= SCHEMA_VERSION

    @property
    def is_writable(self) -> bool:
        return self.is_readable and self.writers <= SCHEMA_VERSION

    def refusal(self, path: Path) -> str:
        """Return why this version may not write to the file, or may not even read it, and what to do."""
        by = f"jupyter_dtf {self.release}" if self.release else "a newer jupyter_dtf"
        may = "it can read the file but not write to it" if self.is_readable else "it cannot read the file"
        use = f"jupyter_dtf >= {self.release}" if self.release else "a newer jupyter_dtf"
        return (
            f"The store of runs at {path} is of schema {self.schema}, made by {by}. This version of jupyter_dtf "
            f"({__version__}) has schema {SCHEMA_VERSION}: {may}. Use {use}, or set JUPYTER_DTF_DATA_DIR to another "
            "folder"
        )


def standing(db: sqlite3.Connection) -> Standing:
    """Read the versions that the file states about itself. Raises sqlite3.Error."""
    readers = int(db.execute("PRAGMA user_version").fetchone()[0])
    said: dict[str, str] = {}
    if db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'about'").fetchone():
        said = dict(db.execute("SELECT name, value FROM about"))
    schema = max(readers, _number(said.get("schema"), readers))
    return Standing(schema, readers, _number(said.get("writers"), schema), said.get("release", ""))


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and text.isdecimal() else otherwise


def open_file(path: Path) -> tuple[sqlite3.Connection, Standing]:
    """Open the file, creating it or migrating it to this version's schema if necessary.

    The file is opened read-only if it states that this version may not write to it.

    Raises Unavailable for a file that only newer versions can read, which is not changed, sqlite3.DatabaseError for a
    damaged file or one of another program, and sqlite3.OperationalError if the file cannot be used now.
    """
    if not path.exists():
        private_files.open_file(path, 0).close()  # before SQLite makes it readable to others
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        private_files.close(path.with_name(name))
    db = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
    try:
        now = standing(db)
        if not now.is_readable:
            raise Unavailable(now.refusal(path))
        if now.schema == 0 and db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
            raise sqlite3.DatabaseError("another program's database")
        if now.is_writable:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            if now.schema == 0:
                _change(db, [*_TABLES, _ABOUT, marks_table.CREATE, f"PRAGMA application_id = {_APPLICATION_ID}"], ())
            else:
                _check_tables(db)
                if now.schema < SCHEMA_VERSION:
                    _migrate(db, path, now)
            now = standing(db)
        else:
            db.execute("PRAGMA query_only = ON")
        _check_tables(db)
    except BaseException:
        db.close()
        raise
    return db, now


def _check_tables(db: sqlite3.Connection) -> None:
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not {"runs", "events"} <= tables:
        raise sqlite3.DatabaseError(f"its tables are {sorted(tables)}")


def _migrate(db: sqlite3.Connection, path: Path, now: Standing) -> None:
    """Migrate a file to this version's schema, completely or not at all."""
    steps = [step for step in STEPS if step.schema > now.schema]
    try:
        if any(step.destroys for step in steps):
            _log.warning(
                "%s is migrated from schema %d to %d; a copy of the old file is in %s",
                path,
                now.schema,
                SCHEMA_VERSION,
                _copy(db, path, now.schema),
            )
        _change(db, (), steps)
    except sqlite3.OperationalError:  # locked, disk full
        raise
    except sqlite3.Error as error:
        if type(error) is sqlite3.DatabaseError:  # it is damaged
            raise
        raise Unavailable(
            f"The store of runs at {path} is of schema {now.schema} and cannot be migrated to {SCHEMA_VERSION}: "
            f"{error}. It was not changed; set JUPYTER_DTF_DATA_DIR to another folder to start a new one"
        ) from error


def _change(
    db: sqlite3.Connection, statements: list[str] | tuple[str, ...], steps: tuple[Step, ...] | list[Step]
) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        for statement in statements:
            db.execute(statement)
        for step in steps:
            step.take(db)
        said = {"schema": SCHEMA_VERSION, "writers": WRITERS, "release": __version__}
        db.executemany(
            "INSERT OR REPLACE INTO about (name, value) VALUES (?, ?)", [(k, str(v)) for k, v in said.items()]
        )
        db.execute(f"PRAGMA user_version = {READERS}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _copy(db: sqlite3.Connection, path: Path, schema: int) -> Path:
    """Copy the file to the same directory, completely or not at all."""
    copy = path.with_name(f"{path.name}.schema-{schema}-{time.strftime('%Y%m%d-%H%M%S')}")
    unfinished = copy.with_name(f"{copy.name}.{os.getpid()}.new")
    private_files.open_file(unfinished, 0).close()
    try:
        target = sqlite3.connect(unfinished)
        try:
            db.backup(target)
        finally:
            target.close()
        os.replace(unfinished, copy)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return copy
