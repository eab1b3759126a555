"""Marks that users give runs (names, tags, notes, deletion), in hubs over one store, as in different processes."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.backend.records.marked import Marked
from jupyter_dtf.backend.records.store import Store
from jupyter_dtf.errors import Conflict, InvalidInput, NotFound
from jupyter_dtf.schema.run import RunState
from jupyter_dtf.schema.run_marks import RunMarks, RunPatch

from ...patience import left_s
from .run_events import encoded, run_info, short_run


@pytest.fixture
def hubs(tmp_path: Path) -> Iterator[Callable[[], Hub]]:
    """A factory of hubs, each with its own store on the same file, with the ended run r1 and the running run r2."""
    path, stores = tmp_path / "runs.sqlite", []

    def make() -> Hub:
        stores.append(Store(path))
        return Hub(stores[-1])

    first = Store(path)
    for run_id, end in (("r1", RunState.SUCCEEDED), ("r2", RunState.RUNNING)):
        first.put_run(run_info(run_id, state=end))
        first.append(run_id, encoded(short_run(end)))
    first.close()
    yield make
    for store in stores:
        store.close()


def test_what_is_said_of_a_run_is_seen_by_others_and_told(hubs: Callable[[], Hub]) -> None:
    mine, others = hubs(), hubs()
    told: list[str] = []
    others.subscribe(told.append)
    name = others.info("r1").name
    info = mine.mark("r1", RunPatch(name="best one", tags=["a", " b ", "a"], note="why"))
    assert (info.name, info.marks.tags, info.marks.note) == ("best one", ["a", "b"], "why")
    others.look_for_marks(now=True)
    assert told == ["r1"]
    assert others.info("r1") == info
    assert [run.name for run in hubs().runs()] == ["best one", "r2"]

    mine.mark("r1", RunPatch(name=""))
    assert (mine.info("r1").name, mine.info("r1").marks.tags) == (name, ["a", "b"])
    assert mine.record("r1").info.name == name  # the name from the events is unchanged


def test_a_deleted_run_can_be_had_back_until_it_is_forgotten(hubs: Callable[[], Hub]) -> None:
    hub = hubs()
    with pytest.raises(Conflict, match="must have ended to be deleted, but r2 is running"):
        hub.mark("r2", RunPatch(deleted=True))
    with pytest.raises(NotFound):
        hub.mark("r9", RunPatch(deleted=True))
    hub.mark("r1", RunPatch(deleted=True, tags=["x"]))
    assert [run.id for run in hub.runs()] == [run.id for run in hubs().runs()] == ["r2"]
    assert [run.id for run in hub.runs(deleted=True)] == ["r1"]
    hub.mark("r1", RunPatch(deleted=False))
    assert [run.id for run in hub.runs()] == ["r1", "r2"]
    assert hub.info("r1").marks == RunMarks(tags=["x"])

    hub.mark("r1", RunPatch(deleted=True))
    assert hub.store is not None
    assert hub.store.prune(deleted_s=3600) == []
    assert hub.store.prune(deleted_s=-1) == ["r1"]
    assert hubs().runs(deleted=True) == []
    marks = hub.store.marks()
    assert marks is not None
    assert (marks[1]["r1"].tags, marks[1]["r1"].deleted is None) == ([], False)
    later = hubs()
    later.add_summary(run_info("r1", state=RunState.SUCCEEDED))  # by a cluster that still has it
    assert [run.id for run in later.runs()] == ["r2"]


def test_a_run_that_was_taken_for_lost_and_lives_is_not_deleted(hubs: Callable[[], Hub]) -> None:
    hub = hubs()
    assert hub.store is not None
    alive = hub.store.run("r2")
    hub.store.mark_lost("r2", "The cluster did not respond")
    hub.mark("r2", RunPatch(deleted=True))
    assert [run.id for run in hub.runs()] == ["r1"]
    hub.store.write([alive], [])  # its cluster responds after all
    assert [(run.id, run.marks.deleted) for run in hub.runs()] == [("r1", None), ("r2", None)]
    assert hub.info("r2").marks.deleted is None
    assert hub.store.prune(deleted_s=-1) == []


def test_marks_of_a_newer_version_are_kept_and_damaged_ones_ignored(hubs: Callable[[], Hub], tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "runs.sqlite")
    newer = msgspec.msgpack.encode({"note": "mine", "colour": "red"})
    db.executemany("INSERT INTO marks VALUES (?, ?)", [("r1", newer), ("r2", b"\xc1")])
    db.execute("INSERT INTO about VALUES ('marks', '1')")
    db.commit()
    hub = hubs()
    assert (hub.info("r1").marks.note, hub.info("r2").marks) == ("mine", RunMarks())
    hub.mark("r1", RunPatch(tags=["kept"]))
    data = db.execute("SELECT data FROM marks WHERE run_id = 'r1'").fetchone()[0]
    db.close()
    found = msgspec.msgpack.decode(data)
    assert (found["colour"], found["note"], found["tags"]) == ("red", "mine", ["kept"])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "a\nb"),
        ("name", "x" * 201),
        ("tags", [""]),
        ("tags", ["a"] * 2 + [str(n) for n in range(33)]),
        ("note", "\ud800"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_its_field(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as error:
        RunPatch(**{field: value})
    assert error.value.field == field


def test_a_change_does_not_replace_newer_marks_that_are_read_meanwhile(tmp_path: Path) -> None:
    settled = threading.Event()  # the reading thread has read, or it waits for the change

    class Lock:
        def __init__(self) -> None:
            self._lock = threading.Lock()

        def __enter__(self) -> None:
            if not self._lock.acquire(blocking=False):
                settled.set()
                self._lock.acquire()

        def __exit__(self, *error: object) -> None:
            self._lock.release()

    def look() -> None:
        marked.look(now=True)
        settled.set()

    class OvertakenStore(Store):
        def mark(self, run_id: str, how: Callable[[RunMarks], RunMarks]) -> RunMarks:
            changed = super().mark(run_id, how)
            other.mark(run_id, lambda marks: RunMarks(name="newer"))
            reading.start()
            assert settled.wait(left_s())
            return changed

    path = tmp_path / "runs.sqlite"
    other, store = Store(path), OvertakenStore(path)
    reading = threading.Thread(target=look)
    marked = Marked(store)
    marked._lock = Lock()  # type: ignore[assignment]
    marked.change("r1", RunPatch(name="older"))
    reading.join(left_s())
    assert marked.onto(run_info()).name == "newer"
    store.close()
    other.close()
