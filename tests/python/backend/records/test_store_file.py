"""Stores of other versions are migrated, only read, or left alone, but never damaged."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from jupyter_dtf.backend.records import store_file
from jupyter_dtf.backend.records.store import SCHEMA_VERSION, Store
from jupyter_dtf.backend.records.store_file import Step, standing
from jupyter_dtf.errors import Unavailable
from jupyter_dtf.schema.base import to_plain
from jupyter_dtf.schema.run import RunState

from .run_events import encoded, run_info, short_run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a run."""
    path = tmp_path / "runs.sqlite"
    store = Store(path)
    store.put_run(run_info())
    store.append("r1", encoded(short_run()))
    store.close()
    return path


def change(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


def as_first(path: Path) -> None:
    """Change a store into one of the first version, which recorded only its schema."""
    change(path, "DROP TABLE about", "PRAGMA user_version = 1")


def test_a_store_of_the_first_schema_is_brought_up_to_date(path: Path) -> None:
    as_first(path)
    store = Store(path)
    assert [info.id for info in store.runs()] == ["r1"]
    assert list(store.events("r1")) == encoded(short_run())
    now = standing(sqlite3.connect(path))
    assert (now.schema, now.readers, now.writers) == (SCHEMA_VERSION, 1, 1)  # the first version can still use it
    store.close()


def test_a_step_that_fails_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(db: sqlite3.Connection) -> None:
        db.execute("DELETE FROM events")
        db.execute("INSERT INTO runs SELECT * FROM runs")

    as_first(path)
    monkeypatch.setattr(store_file, "STEPS", (*store_file.STEPS, Step(SCHEMA_VERSION, fail)))
    with pytest.raises(
        Unavailable, match="of schema 1 and cannot be migrated to 3: UNIQUE constraint.*It was not changed"
    ):
        Store(path)
    monkeypatch.undo()
    assert [file.name for file in path.parent.glob("*damaged*")] == []
    store = Store(path)
    assert list(store.events("r1")) == encoded(short_run())
    store.close()


def test_a_step_that_destroys_leaves_a_copy_of_before(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_first(path)
    step = Step(SCHEMA_VERSION, lambda db: db.execute("DELETE FROM events"), destroys=True)
    monkeypatch.setattr(store_file, "STEPS", (*store_file.STEPS, step))
    store = Store(path)
    assert list(store.events("r1")) == []
    store.close()
    (copy,) = path.parent.glob("runs.sqlite.schema-1-*")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    rows = sqlite3.connect(copy).execute("SELECT seq, data FROM events ORDER BY seq").fetchall()
    assert rows == encoded(short_run())


NEWER = (
    "UPDATE about SET value = '9' WHERE name = 'schema'",
    "UPDATE about SET value = '9.0.0' WHERE name = 'release'",
    "ALTER TABLE runs ADD COLUMN attempts INTEGER",
)


def test_a_newer_store_that_older_versions_may_write_is_used_as_it_is(path: Path) -> None:
    change(path, *NEWER)
    store = Store(path)
    assert store.refusal == ""
    store.append("r1", [(99, b"x")])
    assert standing(sqlite3.connect(path)).schema == 9
    store.close()


def test_a_newer_store_that_older_versions_may_only_read_is_read(path: Path) -> None:
    change(path, *NEWER, "UPDATE about SET value = '9' WHERE name = 'writers'")
    store = Store(path)
    assert [info.id for info in store.runs()] == ["r1"]
    assert len(list(store.events("r1"))) == len(short_run())
    writes: list[Callable[[], object]] = [
        lambda: store.append("r1", [(99, b"x")]),
        lambda: store.delete("r1"),
        lambda: store.prune(max_runs=0),
    ]
    for write in writes:
        with pytest.raises(Unavailable, match="it can read the file but not write to it. Use jupyter_dtf >= 9.0.0"):
            write()
    store.close()
    assert sqlite3.connect(path).execute("SELECT COUNT(*) FROM events").fetchone() == (len(short_run()),)


def test_a_store_that_becomes_a_newer_versions_is_written_no_more(path: Path) -> None:
    store = Store(path)
    store.append("r1", [(98, b"x")])
    change(path, *NEWER, "UPDATE about SET value = '9' WHERE name = 'writers'")
    with pytest.raises(Unavailable, match="not write to it"):
        store.append("r1", [(99, b"x")])
    assert [info.id for info in store.runs()] == ["r1"]
    change(path, "PRAGMA user_version = 9", "CREATE TABLE more (x)")
    with pytest.raises(Unavailable, match="it cannot read the file"):
        store.runs()
    store.close()


def test_what_a_newer_version_has_written_of_a_run_stays_when_it_is_lost(path: Path) -> None:
    raw = {**to_plain(run_info("r2", state=RunState.RUNNING)), "attempts": [1, 2]}
    db = sqlite3.connect(path)
    db.execute("INSERT INTO runs VALUES ('r2', 'c', 'running', 1.0, ?)", (msgspec.msgpack.encode(raw),))
    db.commit()
    store = Store(path)
    assert store.mark_lost("r2", "gone").state is RunState.LOST
    kept = msgspec.msgpack.decode(db.execute("SELECT info FROM runs WHERE id = 'r2'").fetchone()[0])
    assert (kept["attempts"], kept["state"]) == ([1, 2], "lost")
    store.close()
    db.close()
