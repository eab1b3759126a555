from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_dtf.backend.records import archive as archive_module
from jupyter_dtf.backend.records.archive import Archive
from jupyter_dtf.backend.records.media_tail import NOT_KEPT
from jupyter_dtf.backend.records.run_record import RunRecord
from jupyter_dtf.backend.records.store import Store
from jupyter_dtf.errors import Unavailable
from jupyter_dtf.schema.events import Note, Picture, encode_event
from jupyter_dtf.schema.run import RunDescriptor, RunState

from ...patience import left_s
from .run_events import T0, encoded, run_info, short_run

Rows = list[tuple[str, int, bytes]]


class CountingStore(Store):
    """A store that records its writes, and refuses them while ``broken``."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.writes: list[Rows] = []
        self.broken = False
        self.on_write: Callable[[], object] = lambda: None

    def write(self, infos: Any, events: Any) -> None:
        rows = list(events)
        self.on_write()
        if self.broken:
            raise Unavailable("disk full")
        super().write(infos, rows)
        self.writes.append(rows)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CountingStore]:
    store = CountingStore(tmp_path / "runs.sqlite")
    yield store
    store.close()


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, left_s()))


async def until(store: CountingStore, condition: Callable[[], bool]) -> None:
    """Return after a write that makes the condition true."""
    loop, wrote = asyncio.get_running_loop(), asyncio.Event()
    store.on_write = lambda: loop.call_soon_threadsafe(wrote.set)
    while not condition():
        await wrote.wait()
        wrote.clear()
        await asyncio.sleep(0.01)  # on_write comes at the beginning of a write


def test_events_are_written_together_and_by_themselves(store: CountingStore) -> None:
    async def main() -> None:
        archive = Archive(store)
        archive.put_run(run_info())
        for seq, data in encoded(short_run(RunState.RUNNING)):
            archive.append("r1", seq, data)
        await until(store, lambda: bool(store.writes))
        assert len(store.writes) == 1
        assert list(store.events("r1")) == encoded(short_run(RunState.RUNNING))
        await archive.close()

    run(main())


def test_the_end_of_a_run_is_written_at_once_with_what_its_points_tell(
    store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "WRITE_EVERY_S", 3600)

    async def main() -> None:
        archive = Archive(store)
        archive.put_run(run_info())
        for seq, data in encoded(short_run()):
            archive.append("r1", seq, data)
        await until(store, lambda: bool(store.runs()) and bool(store.run("r1").sparkline))
        assert store.run("r1").state is RunState.SUCCEEDED
        assert store.run("r1").sparkline == [3.0, 2.0, 1.0]
        assert store.run("r1").latest == {"loss": 1.5}
        note = encode_event(Note(time=T0 + 9, level="info", title="Saving of this run has resumed", metric="loss"))
        archive.append("r1", len(short_run()), note)  # added afterwards
        await until(store, lambda: store.run("r1").next_seq == len(short_run()) + 1 and bool(store.run("r1").latest))
        assert store.run("r1") == RunRecord.replay(run_info(), store.events("r1")).info
        await archive.close()

    run(main())


def test_flush_writes_all_that_was_given(store: CountingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "WRITE_EVERY_S", 3600)

    async def main() -> None:
        archive = Archive(store)
        for seq, data in encoded(short_run()):
            archive.append("r1", seq, data)
        await archive.flush()
        assert store.next_seq("r1") == len(short_run())
        await archive.close()

    run(main())


def test_the_summary_written_is_that_of_the_events_written(store: CountingStore) -> None:
    rows = encoded(short_run())

    async def main() -> None:
        archive = Archive(store)
        archive.put_run(run_info(message="what a descriptor does not say"))
        await archive.flush()
        assert store.run("r1") == run_info()
        for seq, data in rows[:4]:
            archive.append("r1", seq, data)
        await archive.flush()
        assert (store.run("r1").state, store.run("r1").next_seq) == (RunState.RUNNING, 4)
        for seq, data in rows[4:7]:  # points and output are not decoded
            archive.append("r1", seq, data)
        archive.append("r1", 7, b"\xff no event")
        await archive.flush()
        assert store.run("r1").next_seq == 4
        assert store.next_seq("r1") == 8
        await archive.close()

    run(main())


def test_a_failed_write_is_told_kept_and_tried_again(
    store: CountingStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(archive_module, "_RETRY_S", (0.01,))
    events = encoded(short_run())

    async def main() -> None:
        archive = Archive(store)
        store.broken = True
        archive.put_run(run_info())
        archive.append("r1", *events[0])
        with pytest.raises(Unavailable, match="disk full"):
            await archive.flush()
        assert archive.error == "disk full"
        for event in events[1:]:
            archive.append("r1", *event)
        store.broken = False
        await until(store, lambda: store.next_seq("r1") == len(events))
        await archive.flush()
        assert archive.error == ""
        assert list(store.events("r1")) == events
        assert store.run("r1").state is RunState.SUCCEEDED
        await archive.close()

    run(main())
    assert caplog.text.count("Runs are not being saved") == 1
    assert "Saving of runs has resumed" in caplog.text


def test_closing_writes_the_rest_and_says_when_it_cannot(store: CountingStore) -> None:
    async def main() -> None:
        archive = Archive(store)
        archive.append("r1", 0, b"x")
        await archive.close()
        assert store.next_seq("r1") == 1
        archive = Archive(store)
        archive.append("r1", 1, b"y")
        store.broken = True
        with pytest.raises(Unavailable, match="disk full"):
            await archive.close()

    run(main())


def test_the_loop_is_free_while_the_disk_is_slow(store: CountingStore) -> None:
    async def main() -> None:
        archive = Archive(store)
        loop, begun = asyncio.get_running_loop(), asyncio.Event()
        go_on = asyncio.Event()

        def slow() -> None:
            loop.call_soon_threadsafe(begun.set)
            asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(left_s())

        store.on_write = slow
        archive.append("r1", 0, b"x")
        flushing = asyncio.create_task(archive.flush())
        await begun.wait()
        archive.append("r1", 1, b"y")  # while a write is under way
        go_on.set()
        await flushing
        await archive.flush()
        assert list(store.events("r1")) == [(0, b"x"), (1, b"y")]
        await archive.close()

    run(main())


def test_what_is_saved_elsewhere_has_the_pictures_that_the_log_has_not_any_more(
    store: CountingStore, tmp_path: Path
) -> None:
    picture = encode_event(Picture(time=T0, task="worker:0", name="input", step=1, png=b"x", width=1, height=1))
    elsewhere = tmp_path / "elsewhere.sqlite"

    async def main() -> None:
        store.broken = True
        archive = Archive(store)
        archive.put_run(run_info())
        archive.append("r1", 0, picture)
        await archive.save_to(elsewhere, {"r1": [NOT_KEPT]}, [run_info()])
        store.broken = False
        await archive.close()

    run(main())
    saved = Store(elsewhere)
    assert list(saved.events("r1")) == [(0, picture)]
    saved.close()


def test_what_is_being_written_is_saved_elsewhere_if_that_fails(store: CountingStore, tmp_path: Path) -> None:
    picture = encode_event(Picture(time=T0, task="worker:0", name="input", step=1, png=b"x", width=1, height=1))
    elsewhere = tmp_path / "elsewhere.sqlite"

    async def main() -> None:
        archive = Archive(store)
        loop, begun, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

        def slow() -> None:
            loop.call_soon_threadsafe(begun.set)
            go_on.wait(left_s())

        store.on_write, store.broken = slow, True
        archive.put_run(run_info())
        archive.append("r1", 0, picture)
        flushing = asyncio.create_task(archive.flush())
        await begun.wait()
        saving = asyncio.create_task(archive.save_to(elsewhere, {"r1": [NOT_KEPT]}, [run_info()]))
        await asyncio.sleep(0)  # it has begun
        go_on.set()
        archive._thread.submit(lambda: None).result(left_s())  # the loop learns of the failure only after that
        with pytest.raises(Unavailable):
            await flushing
        await saving
        store.broken = False
        await archive.close()

    run(main())
    saved = Store(elsewhere)
    assert list(saved.events("r1")) == [(0, picture)]
    saved.close()


def test_runs_that_change_meanwhile_do_not_disturb_saving_elsewhere(store: CountingStore, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.sqlite"

    async def main() -> None:
        archive = Archive(store)
        loop = asyncio.get_running_loop()

        async def change() -> None:
            archive.put_run(run_info("r2"))
            archive.append("r2", 0, b"x")

        def runs() -> Iterator[RunDescriptor]:  # read by the thread that writes
            asyncio.run_coroutine_threadsafe(change(), loop).result(left_s())
            yield run_info()

        store.broken = True
        archive.put_run(run_info())
        await archive.save_to(elsewhere, {}, runs())
        store.broken = False
        await archive.close()

    run(main())
    saved = Store(elsewhere)
    assert [info.id for info in saved.runs()] == ["r1"]
    saved.close()
