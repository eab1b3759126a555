from __future__ import annotations

import math
import sqlite3
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_dtf.backend.records.run_record import RunRecord
from jupyter_dtf.backend.records.store import SCHEMA_VERSION, Store
from jupyter_dtf.errors import NotFound, Unavailable
from jupyter_dtf.schema.run import RunState

from .run_events import T0, encoded, run_info, short_run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "runs.sqlite")
    yield store
    store.close()


def test_what_is_written_is_read_by_another_process_handle(store: Store) -> None:
    store.put_run(run_info(sparkline=[1.0, math.nan]))
    store.append("r1", encoded(short_run()))
    other = Store(store.path)
    assert other.run("r1").sparkline[0] == 1.0
    assert list(other.events("r1")) == encoded(short_run())
    assert other.next_seq("r1") == len(short_run())
    assert other.next_seq("nobody") == 0
    other.close()


def test_events_are_read_after_a_number_in_chunks(store: Store) -> None:
    events = [(seq, b"%d" % seq) for seq in range(1234)]
    store.append("r1", events)
    store.append("r2", [(0, b"other")])
    assert list(store.events("r1")) == events
    assert list(store.events("r1", after=700)) == events[701:]
    assert list(store.events("r1", after=1233)) == []


def test_writing_again_changes_nothing(store: Store) -> None:
    for _ in range(2):
        store.append("r1", encoded(short_run()))
    store.append("r1", [(0, b"not this")])
    assert list(store.events("r1")) == encoded(short_run())


def test_runs_are_listed_newest_first(store: Store) -> None:
    for i in (2, 0, 1):
        store.put_run(run_info(f"r{i}", T0 + i))
    assert [info.id for info in store.runs()] == ["r2", "r1", "r0"]
    assert [info.id for info in store.runs(limit=1)] == ["r2"]


def test_deleting_takes_the_events_along(store: Store) -> None:
    store.put_run(run_info())
    store.append("r1", encoded(short_run()))
    store.delete("r1")
    assert store.runs() == []
    assert list(store.events("r1")) == []
    with pytest.raises(NotFound, match="no run with the id 'r1'"):
        store.delete("r1")
    with pytest.raises(NotFound, match="no run with the id 'r1'"):
        store.run("r1")


def test_pruning_leaves_what_is_under_way(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: T0 + 1000)
    for i in range(6):
        state = RunState.RUNNING if i == 0 else RunState.SUCCEEDED
        store.put_run(run_info(f"r{i}", T0 + i, state=state))
        store.append(f"r{i}", [(0, b"x")])
    assert store.prune() == []
    assert store.prune(max_age_s=997.5) == ["r1", "r2"]
    assert store.prune(max_runs=2) == ["r3"]
    assert [info.id for info in store.runs()] == ["r5", "r4", "r0"]
    assert [store.next_seq(f"r{i}") for i in range(6)] == [1, 0, 0, 0, 1, 1]


def test_a_run_whose_writer_vanished_becomes_lost_once(store: Store) -> None:
    store.put_run(run_info(state=RunState.RUNNING))
    store.append("r1", encoded(short_run(end=RunState.RUNNING)))
    for _ in range(2):
        info = store.mark_lost("r1", "its cluster is gone", when=T0 + 9)
        assert (info.state, info.message, info.ended) == (RunState.LOST, "its cluster is gone", T0 + 9)
    assert store.run("r1") == info
    record = RunRecord.replay(info, store.events("r1"))
    assert (record.info.state, record.info.message) == (RunState.LOST, "its cluster is gone")
    assert record.next_seq == info.next_seq == len(short_run(end=RunState.RUNNING)) + 1
    with pytest.raises(NotFound):
        store.mark_lost("nobody", "")


def test_only_the_owner_may_read_the_file(store: Store) -> None:
    store.put_run(run_info())
    for path in store.path.parent.glob("runs.sqlite*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_the_file_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DTF_DATA_DIR", str(tmp_path / "here"))
    store = Store()
    assert store.path == tmp_path / "here" / "runs.sqlite"
    assert store.path.exists()
    store.close()


def _write_other_database(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE recipes (name TEXT)")
    db.commit()
    db.close()


def _write_half_a_store(path: Path) -> None:
    store = Store(path)
    store.put_run(run_info())
    store.close()
    db = sqlite3.connect(path)
    db.execute("DROP TABLE events")
    db.commit()
    db.close()


@pytest.mark.parametrize(
    "damage", [lambda p: p.write_bytes(b"SQLite format 3\0" + b"x" * 5000), _write_other_database, _write_half_a_store]
)
def test_a_damaged_file_is_moved_aside_and_kept(tmp_path: Path, damage: object) -> None:
    path = tmp_path / "runs.sqlite"
    assert callable(damage)
    damage(path)
    content = path.read_bytes()
    store = Store(path)
    assert store.moved_aside is not None
    assert store.moved_aside.read_bytes() == content
    assert store.runs() == []
    store.put_run(run_info())
    store.close()
    again = Store(path)
    assert again.moved_aside is None
    assert len(again.runs()) == 1
    again.close()


def test_a_file_of_a_newer_version_is_refused_and_left_alone(store: Store) -> None:
    store.put_run(run_info())
    store.close()
    db = sqlite3.connect(store.path)
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    db.close()
    with pytest.raises(Unavailable, match=f"of schema {SCHEMA_VERSION + 1}"):
        Store(store.path)
    assert [path.name for path in store.path.parent.glob("*damaged*")] == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match=r"runs\.sqlite"):
        Store(tmp_path / "file" / "runs.sqlite")


def test_a_closed_store_says_so_as_our_error(store: Store) -> None:
    store.close()
    with pytest.raises(Unavailable, match="cannot be used"):
        store.runs()


def test_writers_and_readers_do_not_disturb_each_other(store: Store) -> None:
    writers = [Store(store.path) for _ in range(2)]
    errors: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for seq in range(100):
                writers[number].append(f"r{number}", [(seq, b"data")])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        seqs = [seq for seq, _ in store.events("r0")]
        assert seqs == list(range(len(seqs)))
    for thread, writer in zip(threads, writers, strict=True):
        thread.join()
        writer.close()
    assert errors == []
    assert store.next_seq("r0") == store.next_seq("r1") == 100
