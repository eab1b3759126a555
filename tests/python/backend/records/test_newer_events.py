"""Unknown events and fields of a newer version have no effect on what this version knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.backend.records.run_record import RunRecord
from jupyter_dtf.backend.records.store import Store
from jupyter_dtf.handlers.feed import events_message

from .run_events import encoded, run_info, short_run

KNOWN = {"run", "task", "points", "log", "note", "progress", "epoch"}
numbers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats())
values = st.one_of(st.none(), numbers, st.text(), st.binary(), st.lists(numbers))
unknown = st.builds(
    lambda tag, rest: msgspec.msgpack.encode({"type": tag, **rest}),
    st.text().filter(lambda tag: tag not in KNOWN),
    st.dictionaries(st.text().filter(lambda key: key != "type"), values, max_size=4),
)
new_states = st.sampled_from(["run", "task"]).map(
    lambda tag: msgspec.msgpack.encode({"type": tag, "time": 1.0, "task": "worker:0", "state": "resting"})
)
fields = st.dictionaries(st.text(min_size=1).map(lambda key: f"new {key}"), values, max_size=3)


def view(record: RunRecord) -> dict[str, Any]:
    info = msgspec.to_builtins(record.info)
    del info["next_seq"], info["points_seq"]
    series = {key: (line.step.tolist(), line.value.tolist()) for key, line in record.series.items()}
    return {"info": info, "series": series, "events": [event for _, event in record.events()], "lost": record.lost}


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_unknown_events_and_fields_change_nothing_else(data: st.DataObject) -> None:
    plain = [event for _, event in encoded(short_run())]
    told: list[bytes] = []
    for event in plain:
        told += data.draw(st.lists(st.one_of(unknown, new_states), max_size=2))
        told.append(msgspec.msgpack.encode({**msgspec.msgpack.decode(event), **data.draw(fields)}))
    told += data.draw(st.lists(unknown, max_size=2))
    with_all = RunRecord.replay(run_info(), enumerate(told))
    without = RunRecord.replay(run_info(), enumerate(plain))
    assert view(with_all) == view(without)
    assert with_all.next_seq == len(told)
    assert sum(with_all.skipped.values()) == len(told) - len(plain)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    store = Store(tmp_path / "runs.sqlite")
    yield store
    store.close()


def test_they_pass_through_hub_store_and_feed_with_their_numbers(store: Store) -> None:
    events = [data for _, data in encoded(short_run())]
    events.insert(2, msgspec.msgpack.encode({"type": "host", "time": 1.0, "cpu": 0.5}))
    events.insert(5, msgspec.msgpack.encode({"type": "run", "time": 1.0, "state": "resting"}))
    events.append(b"\xc1")
    live = Hub()
    live.add_run(run_info())
    for seq, data in enumerate(events):
        live.apply("r1", seq, data)
    assert live.next_seq("r1") == len(events)
    assert live.record("r1").next_seq == len(events)
    assert live.info("r1").state.value == "succeeded"
    assert live.record("r1").skipped == {"host": 1, "run": 1, "": 1}
    message = events_message(live, "r1", -1)
    assert message.next_seq == len(events)
    assert {2, 5}.isdisjoint(event["seq"] for event in message.events)

    store.put_run(run_info())
    store.append("r1", enumerate(events[:-1]))
    assert [data for _, data in store.events("r1")] == events[:-1]  # kept for the version that can read them
    stored = Hub(store).record("r1")
    assert view(stored) == view(live.record("r1"))
