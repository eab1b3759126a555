from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_dtf.backend.records.apply_event import apply_event
from jupyter_dtf.backend.records.archive import summarize
from jupyter_dtf.backend.records.hub import MAX_IDLE_RECORDS, Hub
from jupyter_dtf.backend.records.run_record import RunRecord
from jupyter_dtf.backend.records.store import Store
from jupyter_dtf.errors import Conflict, NotFound
from jupyter_dtf.schema.events import Logged, Points, encode_event
from jupyter_dtf.schema.run import RunState

from .run_events import T0, encoded, points, run_info, short_run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "runs.sqlite")
    yield store
    store.close()


def feed(hub: Hub, run_id: str = "r1", end: RunState = RunState.SUCCEEDED, until: int | None = None) -> None:
    for seq, data in encoded(short_run(end))[:until]:
        hub.apply(run_id, seq, data)


def test_a_live_run_is_known_from_its_link_alone() -> None:
    hub = Hub()
    hub.add_run(run_info())
    feed(hub)
    assert hub.info("r1").state is RunState.SUCCEEDED
    assert hub.info("r1").sparkline == [3.0, 2.0, 1.0]
    assert hub.next_seq("r1") == len(short_run())
    assert list(hub.lines("r1")) == [("loss", ""), ("loss", "worker:0"), ("loss", "worker:1")]
    assert [seq for seq, _ in hub.events("r1", after=7)] == [8, 9, 10]


def test_what_is_known_already_is_ignored_and_a_gap_is_refused() -> None:
    hub = Hub()
    hub.add_run(run_info())
    feed(hub, until=4)
    feed(hub, until=4)
    assert hub.next_seq("r1") == 4
    with pytest.raises(Conflict, match="`seq` must be 4 for r1, got 6"):
        hub.apply("r1", *encoded(short_run())[6])


def test_a_run_nobody_announced_is_not_found() -> None:
    hub = Hub()
    for call in (hub.record, hub.info, hub.lines, hub.events, hub.delete):
        with pytest.raises(NotFound, match="no run with the id 'r9'"):
            call("r9")
    with pytest.raises(NotFound):
        hub.apply("r9", *encoded(short_run())[0])


def test_only_events_make_a_summary() -> None:
    hub = Hub()
    hub.add_run(run_info(state=RunState.RUNNING, message="no descriptor says this", next_seq=8, latest={"x": 1.0}))
    assert hub.info("r1") == run_info()
    feed(hub)
    hub.add_run(run_info(name="another"))  # it is known already and does not change
    assert hub.info("r1") == RunRecord.replay(run_info(), encoded(short_run())).info
    assert hub.info("r1").next_seq == hub.info("r1").points_seq == len(short_run())


def test_the_word_of_a_run_that_has_ended_meanwhile_hides_nothing_that_is_stored(store: Store) -> None:
    rows = encoded(short_run())
    store.write([run_info()], [("r1", seq, data) for seq, data in rows])
    summarize(store, "r1")
    hub = Hub(store)
    hub.add_run(run_info())  # the answer to its submission, which arrives late
    assert hub.info("r1") == store.run("r1") == RunRecord.replay(run_info(), rows).info
    feed(hub)
    assert hub.info("r1") == store.run("r1")


def test_who_comes_late_sees_at_once_how_a_run_is_and_then_what_its_events_tell() -> None:
    now = run_info()
    for event in short_run()[:8]:
        if not isinstance(event, Points | Logged):
            apply_event(now, event)
    now.next_seq = 8
    hub = Hub()
    hub.add_run(run_info())
    hub.add_summary(now)
    assert hub.info("r1") == hub.runs()[0] == now
    feed(hub, until=6)  # its log is still coming
    assert (hub.info("r1").state, hub.info("r1").next_seq) == (RunState.RUNNING, 8)
    assert (hub.info("r1").progress.done, hub.record("r1").info.progress.done) == (3, 0)
    assert (hub.info("r1").latest, hub.info("r1").points_seq) == ({"loss": 1.5}, 6)  # from the points so far
    hub.add_summary(run_info(state=RunState.LAUNCHING, next_seq=2))  # late: the record knows more
    assert hub.info("r1").next_seq == 8
    feed(hub)
    assert hub.info("r1") == RunRecord.replay(run_info(), encoded(short_run())).info


def test_infos_are_copies() -> None:
    hub = Hub()
    announced = run_info()
    hub.add_run(announced)
    announced.latest["x"] = 1
    hub.info("r1").latest["y"] = 1
    hub.runs()[0].latest["z"] = 1
    assert hub.info("r1").latest == {}


def test_the_store_gives_what_the_link_need_not_send_again(store: Store) -> None:
    store.write([run_info(next_seq=5)], [("r1", seq, data) for seq, data in encoded(short_run())[:5]])
    hub = Hub(store)
    assert hub.next_seq("r1") == 5
    for seq, data in encoded(short_run())[5:]:
        hub.apply("r1", seq, data)
    assert hub.info("r1").state is RunState.SUCCEEDED
    assert len(hub.lines("r1")["loss", ""]) == 3


def test_a_viewer_that_comes_back_sees_what_the_points_told(store: Store) -> None:
    rows = encoded(short_run())
    done = run_info("done", state=RunState.SUCCEEDED, next_seq=len(rows))
    live = run_info("live", state=RunState.RUNNING, next_seq=7)
    store.write([live], [("live", seq, data) for seq, data in rows[:6]])
    store.write([done], [("done", seq, data) for seq, data in rows])
    summarize(store, "done")
    hub = Hub(store)
    assert (hub.next_seq("live"), hub.next_seq("done"), hub.next_seq("new")) == (6, len(rows), 0)
    hub.add_summary(live)  # which does not include points
    for info in (hub.info("done"), hub.info("live"), *hub.runs()):
        assert (info.id, info.latest, info.sparkline) == (info.id, {"loss": 1.5}, [3.0, 2.0, 1.0])
    assert hub.info("live").state is RunState.RUNNING


def test_what_points_told_is_not_hidden_by_a_summary_without_them(store: Store) -> None:
    rows = encoded(short_run())
    done = run_info("done", state=RunState.SUCCEEDED, next_seq=len(rows))
    hub = Hub(store)
    store.write([done], [("done", seq, data) for seq, data in rows])
    summarize(store, "done")
    hub.add_summary(done)
    assert hub.info("done").headline == {"loss": 1.5}
    assert {info.id: info.headline for info in hub.runs()}["done"] == {"loss": 1.5}


def test_live_and_past_runs_are_listed_newest_first(store: Store) -> None:
    store.put_run(run_info("past", T0 + 1, state=RunState.FAILED, next_seq=3))
    store.put_run(run_info("both", T0 + 2, state=RunState.RUNNING, next_seq=1))
    hub = Hub(store)
    hub.add_summary(run_info("both", T0 + 2, state=RunState.STOPPING, next_seq=4))
    hub.add_run(run_info("live", T0 + 3))
    assert [(info.id, info.state.value) for info in hub.runs()] == [
        ("live", "pending"),
        ("both", "stopping"),
        ("past", "failed"),
    ]
    assert hub.info("past").state is RunState.FAILED


def test_subscribers_hear_of_every_change_until_they_leave(caplog: pytest.LogCaptureFixture) -> None:
    hub = Hub()
    heard: list[str] = []

    def broken(run_id: str) -> None:
        raise RuntimeError("broken")

    hub.subscribe(broken)
    unsubscribe = hub.subscribe(heard.append)
    hub.add_run(run_info())
    with caplog.at_level(logging.ERROR):
        feed(hub, until=2)
    assert heard == ["r1"] * 3
    unsubscribe()
    unsubscribe()
    feed(hub)
    assert heard == ["r1"] * 3
    assert caplog.text.count("RuntimeError: broken") == 1


def test_a_watched_run_sets_an_event_and_others_do_not() -> None:
    hub, changed = Hub(), threading.Event()
    unwatch = hub.watch("r1", changed)
    hub.add_run(run_info("r2"))
    assert not changed.is_set()
    hub.add_run(run_info("r1"))
    assert changed.is_set()
    changed.clear()
    unwatch()
    hub.mark_lost("r1", "gone")
    assert not changed.is_set()


def test_a_subscriber_may_use_the_hub_and_other_threads(store: Store) -> None:
    hub = Hub(store)
    states: list[str] = []

    def ask_elsewhere(run_id: str) -> None:  # would never return if the hub held its lock
        thread = threading.Thread(target=lambda: states.append(hub.info(run_id).state.value))
        thread.start()
        thread.join(5)
        assert not thread.is_alive()

    hub.subscribe(ask_elsewhere)
    hub.add_run(run_info())
    feed(hub, until=1)
    assert states == ["pending", "launching"]


def test_deleting_is_for_ended_runs(store: Store) -> None:
    hub = Hub(store)
    heard: list[str] = []
    hub.add_run(run_info())
    feed(hub, until=5)
    with pytest.raises(Conflict, match="must have ended to be deleted, but r1 is running"):
        hub.delete("r1")
    feed(hub)
    store.write([hub.info("r1")], [("r1", seq, data) for seq, data in encoded(short_run())])
    hub.subscribe(heard.append)
    hub.delete("r1")
    assert heard == ["r1"]
    assert hub.runs() == store.runs() == []
    with pytest.raises(NotFound):
        hub.info("r1")


@pytest.mark.parametrize("stored", [True, False])
def test_a_run_whose_cluster_is_gone_becomes_lost(store: Store, stored: bool) -> None:
    hub = Hub(store)
    hub.add_run(run_info())
    feed(hub, end=RunState.RUNNING)
    if stored:
        rows = [("r1", seq, data) for seq, data in encoded(short_run(RunState.RUNNING))[:-1]]  # the last is missing
        store.write([hub.info("r1")], rows)
    for _ in range(2):
        hub.mark_lost("r1", "gone")
        assert (hub.info("r1").state, hub.info("r1").message) == (RunState.LOST, "gone")
    assert [info.state for info in hub.runs()] == [RunState.LOST]
    assert len(hub.lines("r1")["loss", "worker:0"]) == 3
    later = Hub(store)  # for a later viewer, even if the cluster had written nothing
    assert [(info.state, info.message, info.name) for info in later.runs()] == [(RunState.LOST, "gone", "r1")]
    if stored:
        assert store.run("r1").state is RunState.LOST
        assert store.run("r1").sparkline == [3.0, 2.0, 1.0]


def test_a_run_that_ended_unseen_is_not_lost(store: Store) -> None:
    hub = Hub(store)
    hub.add_run(run_info())
    feed(hub, until=5)
    rows = encoded(short_run(RunState.STOPPED))
    store.write([run_info(state=RunState.STOPPED, next_seq=len(rows))], [("r1", seq, data) for seq, data in rows])
    hub.mark_lost("r1", "The cluster was closed")
    assert hub.info("r1").state is store.run("r1").state is RunState.STOPPED
    assert hub.next_seq("r1") == store.next_seq("r1") == len(rows)


def test_idle_records_are_dropped_when_the_store_has_them(store: Store) -> None:
    hub = Hub(store)
    for i in range(2 * MAX_IDLE_RECORDS):
        run_id = f"r{i}"
        hub.add_run(run_info(run_id, T0 + i))
        feed(hub, run_id)
        if i:
            store.write([hub.info(run_id)], [(run_id, seq, data) for seq, data in encoded(short_run())])
    records = [hub.record(f"r{i}") for i in range(2 * MAX_IDLE_RECORDS)]
    assert records[0] is hub.record("r0")  # the store does not have it
    assert records[1] is not hub.record("r1")
    assert len(hub.lines("r1")["loss", ""]) == 3
    assert len(hub.runs()) == 2 * MAX_IDLE_RECORDS


def test_many_threads_read_while_one_applies() -> None:
    hub = Hub()
    hub.add_run(run_info())
    done = threading.Event()
    errors: list[BaseException] = []

    def read() -> None:
        try:
            while not done.is_set():
                for series in hub.lines("r1").values():
                    assert series.value.size == series.step.size or len(series) >= series.value.size
                hub.info("r1")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for seq in range(400):
        event = points(f"worker:{seq % 2}", seq // 2 * 5, [{"loss": 1.0, f"m{seq % 7}": 2.0}] * 5)
        hub.apply("r1", seq, encode_event(event))
    done.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(hub.lines("r1")["loss", "worker:0"]) == 1000
    assert hub.record("r1").lost == {}
