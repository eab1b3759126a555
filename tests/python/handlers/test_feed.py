from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.backend.records.run_record import RunRecord
from jupyter_dtf.backend.records.shared_plots import Plot
from jupyter_dtf.errors import NotFound, Unavailable
from jupyter_dtf.handlers import feed as feed_module
from jupyter_dtf.handlers.feed import EVENTS_PER_MESSAGE, FIGURES_S, MAX_SUBSCRIPTIONS, ROUND_S, Feed
from jupyter_dtf.schema.api import ClusterInfo, ClusterState
from jupyter_dtf.schema.events import Logged, TaskChanged, encode_event
from jupyter_dtf.schema.run import RunInfo, RunState, TaskState

from ..backend.records.run_events import T0, encoded, points, run_info, short_run
from ..patience import left_s
from .fleet import MemoryFleet

Message = dict[str, Any]


class Client:
    """A client of the feed, with the messages it received and the lines it draws from series."""

    def __init__(self, fleet: MemoryFleet) -> None:
        self.got: asyncio.Queue[Message] = asyncio.Queue()
        self.taking = asyncio.Event()
        self.taking.set()
        self.seen: list[Message] = []
        self.lines: dict[tuple[str, str], tuple[list[Any], list[Any]]] = {}
        self.feed = Feed(fleet, self._take)  # type: ignore[arg-type]

    async def _take(self, data: bytes) -> None:
        await self.taking.wait()
        self.got.put_nowait(json.loads(data))

    def send(self, **message: Any) -> None:
        self.feed.receive(json.dumps(message))

    async def until(self, found: Callable[[Message], bool]) -> Message:
        """Return the next message for which ``found`` is true. Earlier ones are in ``seen``, too."""
        while True:
            message = await asyncio.wait_for(self.got.get(), left_s())
            self.seen.append(message)
            if message["type"] == "series":
                self._draw(message)
            if found(message):
                return message

    async def next(self, kind: str) -> Message:
        return await self.until(lambda message: message["type"] == kind)

    def _draw(self, message: Message) -> None:
        for frame in message["frames"]:
            x, y = self.lines.setdefault((frame["metric"], frame["task"]), ([], []))
            assert frame["start"] <= len(x)
            x[frame["start"] :], y[frame["start"] :] = frame["x"], frame["y"]


@asynccontextmanager
async def client_of(fleet: MemoryFleet) -> AsyncIterator[Client]:
    client = Client(fleet)
    task = asyncio.create_task(client.feed.run())
    try:
        yield client
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert fleet.subscribers == 0


@pytest.fixture
def fleet() -> MemoryFleet:
    return MemoryFleet(Hub())


def feed(hub: Hub, run_id: str = "r1", events: slice = slice(None), end: RunState = RunState.SUCCEEDED) -> None:
    hub.add_run(run_info(run_id))
    for seq, data in encoded(short_run(end))[events]:
        hub.apply(run_id, seq, data)


async def test_everything_is_told_first(fleet: MemoryFleet) -> None:
    fleet.set_cluster(ClusterInfo(name="a", kind="local", state=ClusterState.RUNNING))
    feed(fleet.hub)
    async with client_of(fleet) as client:
        clusters = await client.next("clusters")
        assert [cluster["name"] for cluster in clusters["clusters"]] == ["a"]
        runs = await client.next("runs")
        assert runs["all"]
        assert [run["id"] for run in runs["runs"]] == ["r1"]
        assert len(client.seen) == 2


async def test_changes_are_told(fleet: MemoryFleet) -> None:
    async with client_of(fleet) as client:
        await client.next("runs")
        fleet.set_cluster(ClusterInfo(name="a", kind="local", state=ClusterState.STARTING))
        assert (await client.next("clusters"))["clusters"][0]["state"] == "starting"
        feed(fleet.hub)
        message = await client.until(lambda m: m["type"] == "runs" and m["runs"][0]["state"] == "succeeded")
        assert not message["all"]
        assert not any(m["type"] in ("events", "series") for m in client.seen)  # nobody asked for them
        fleet.hub.delete("r1")
        message = await client.next("runs")
        assert (message["runs"], message["removed"]) == ([], ["r1"])


async def test_a_subscription_gets_the_past_and_then_what_comes(fleet: MemoryFleet) -> None:
    feed(fleet.hub, events=slice(0, 6))
    async with client_of(fleet) as client:
        await client.next("runs")
        client.send(type="subscribe", run="r1")
        events = await client.next("events")
        assert [event["seq"] for event in events["events"]] == [0, 1, 2, 3]
        assert events["next_seq"] == 6
        await client.next("series")
        assert client.lines["loss", ""] == ([0, 1, 2], [3.5, 2.5, 1.5])
        assert client.lines["loss", "worker:1"] == ([0, 1, 2], [4, 3, 2])
        feed(fleet.hub, events=slice(6, None))
        events = await client.until(lambda m: m["type"] == "events" and m["next_seq"] == 11)
        assert events["events"][-1] == {"type": "run", "time": T0 + 4, "state": "succeeded", "message": "", "seq": 10}


async def test_resuming_repeats_nothing(fleet: MemoryFleet) -> None:
    feed(fleet.hub)
    async with client_of(fleet) as client:
        client.send(type="subscribe", run="r1", after=8, width=100, x="time")
        events = await client.next("events")
        assert [event["seq"] for event in events["events"]] == [9, 10]
        await client.next("series")
        assert client.lines["loss", "worker:0"] == ([T0, T0 + 1, T0 + 2], [3, 2, 1])


async def test_the_end_of_a_subscription_ends_its_messages(fleet: MemoryFleet) -> None:
    feed(fleet.hub, events=slice(0, 6))
    async with client_of(fleet) as client:
        client.send(type="subscribe", run="r1")
        await client.next("series")
        client.send(type="unsubscribe", run="r1")
        client.send(type="unsubscribe", run="never")
        feed(fleet.hub, events=slice(6, None))
        client.seen.clear()
        await client.until(lambda m: m["type"] == "runs" and m["runs"][0]["state"] == "succeeded")
        client.send(type="nonsense")
        await client.next("error")
        assert {m["type"] for m in client.seen} == {"runs", "error"}


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("nonsense", "JSON"),
        ('{"type":"steal"}', "Invalid value 'steal'"),
        ('{"type":"subscribe","run":"r1","width":1}', "`width` must be from 16 to 8192 pixels, got 1"),
        ('{"type":"subscribe","run":"r1","x":"epoch"}', "got 'epoch'"),
        ('{"type":"subscribe","run":"r1","more":1}', "unknown field `more`"),
        ('{"type":"subscribe","run":"r9"}', "There is no run with the id 'r9'"),
        ("[" * 10_000, "levels deep"),
    ],
)
async def test_what_cannot_be_followed_is_answered(fleet: MemoryFleet, message: str, says: str) -> None:
    feed(fleet.hub)
    async with client_of(fleet) as client:
        client.feed.receive(message)
        assert says in (await client.next("error"))["message"]
        client.send(type="subscribe", run="r1")  # the feed continues
        await client.next("series")


async def test_subscriptions_are_limited(fleet: MemoryFleet) -> None:
    async with client_of(fleet) as client:
        for i in range(MAX_SUBSCRIPTIONS + 1):
            fleet.hub.add_run(run_info(f"r{i}"))
            client.send(type="subscribe", run=f"r{i}")
        assert f"got one more, for 'r{MAX_SUBSCRIPTIONS}'" in (await client.next("error"))["message"]


async def test_a_slow_client_holds_up_nothing_and_gets_the_newest(fleet: MemoryFleet) -> None:
    feed(fleet.hub, events=slice(0, 6))
    async with client_of(fleet) as client:
        client.send(type="subscribe", run="r1")
        await client.next("series")
        client.taking.clear()
        for i in range(300):
            batch = points("worker:0", 3 + 10 * i, [{"loss": float(i)}] * 10)
            fleet.hub.apply("r1", 6 + i, encode_event(batch))
            fleet.set_cluster(ClusterInfo(name=f"c{i % 3}", kind="local", state=ClusterState.RUNNING))
            await asyncio.sleep(0)
        client.seen.clear()
        client.taking.set()
        await client.until(lambda m: m["type"] == "series")
        while client.lines["loss", "worker:0"][1][-1] != 299:
            await client.next("series")
        assert len(client.seen) < 12  # not three hundred


async def test_messages_come_in_rounds(fleet: MemoryFleet) -> None:
    loop = asyncio.get_running_loop()
    feed(fleet.hub, events=slice(0, 4))
    async with client_of(fleet) as client:
        client.send(type="subscribe", run="r1")
        await client.next("events")
        client.seen.clear()
        began = loop.time()
        seq = 4
        while loop.time() - began < 5 * ROUND_S:
            fleet.hub.apply("r1", seq, encode_event(points("worker:0", seq - 4, [{"loss": 1.0}])))
            seq += 1
            await asyncio.sleep(0.002)
        while client.lines.get(("loss", "worker:0"), ([], []))[0][-1:] != [seq - 5]:
            await client.next("series")
        assert 3 <= sum(m["type"] == "series" for m in client.seen) <= 10


async def test_new_figures_of_a_run_are_told_less_often_than_anything_else(fleet: MemoryFleet) -> None:
    loop = asyncio.get_running_loop()
    feed(fleet.hub, events=slice(0, 4))
    async with client_of(fleet) as client:
        await client.next("runs")  # all of them
        client.seen.clear()
        began = loop.time()
        seq = 4
        while (passed_s := loop.time() - began) < 4 * FIGURES_S:
            fleet.hub.apply("r1", seq, encode_event(points("worker:0", seq - 4, [{"loss": float(seq)}])))
            seq += 1
            await asyncio.sleep(0.002)
        last = await client.until(lambda m: m["type"] == "runs" and m["runs"][0]["latest"] == {"loss": seq - 1.0})
        assert last["runs"][0]["state"] == "running"
        assert 3 <= sum(m["type"] == "runs" for m in client.seen) <= passed_s / FIGURES_S + 2


async def test_other_changes_of_a_run_do_not_wait_for_its_figures(
    fleet: MemoryFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "FIGURES_S", 1e6)
    feed(fleet.hub, events=slice(0, 4))
    async with client_of(fleet) as client:
        await client.next("runs")  # all of them
        for seq in (4, 5):  # the first is sent, because no summary of only this run was sent before
            fleet.hub.apply("r1", seq, encode_event(points("worker:0", seq - 4, [{"loss": float(seq)}])))
            if seq == 4:
                assert (await client.next("runs"))["runs"][0]["latest"] == {"loss": 4.0}
        ended = TaskChanged(time=T0 + 3, task="worker:0", state=TaskState.SUCCEEDED, exit_code=0)
        fleet.hub.apply("r1", 6, encode_event(ended))
        (run,) = (await client.next("runs"))["runs"]
        assert [task["state"] for task in run["tasks"]] == ["succeeded", "running"]
        assert run["latest"] == {"loss": 5.0}


async def test_a_long_output_comes_in_pieces_without_a_gap(fleet: MemoryFleet) -> None:
    count = 2 * EVENTS_PER_MESSAGE + 7
    fleet.hub.add_run(run_info())
    for seq in range(count):
        line = Logged(time=T0, task="worker:0", stream="stdout", first=seq, lines=[f"line {seq}"])
        fleet.hub.apply("r1", seq, encode_event(line))
    async with client_of(fleet) as client:
        client.send(type="subscribe", run="r1")
        await client.until(lambda m: m["type"] == "events" and m["next_seq"] == count)
        seqs = [event["seq"] for m in client.seen if m["type"] == "events" for event in m["events"]]
        assert seqs == list(range(count))
        assert max(len(m["events"]) for m in client.seen if m["type"] == "events") == EVENTS_PER_MESSAGE


async def test_what_is_not_finite_is_null(fleet: MemoryFleet) -> None:
    fleet.hub.add_run(run_info())
    fleet.hub.apply("r1", 0, encode_event(points("worker:0", 0, [{"loss": 1.0}, {"loss": math.nan}])))
    async with client_of(fleet) as client:
        assert (await client.next("runs"))["runs"][0]["latest"] == {"loss": None}
        client.send(type="subscribe", run="r1")
        await client.next("series")
        assert client.lines["loss", "worker:0"] == ([0, 1], [1, None])


async def test_changes_from_other_threads_are_told(fleet: MemoryFleet) -> None:
    async with client_of(fleet) as client:
        await client.next("runs")
        await asyncio.to_thread(feed, fleet.hub)
        await client.until(lambda m: m["type"] == "runs" and m["runs"][0]["state"] == "succeeded")


async def test_only_the_series_that_are_wanted_are_told(fleet: MemoryFleet) -> None:
    def report(seq: int, first: int) -> None:
        rows = [{"loss": float(first), "norm": 2.0 * first}]
        fleet.hub.apply("r1", seq, encode_event(points("worker:0", first, rows)))

    fleet.hub.add_run(run_info())
    report(0, 0)
    async with client_of(fleet) as client:
        client.send(type="show", run="r1", metrics=["loss"])  # ignored, because the run is not subscribed
        client.send(type="subscribe", run="r1", metrics=["norm", "unheard"])
        await client.next("series")
        assert client.lines == {("norm", "worker:0"): ([0], [0])}
        client.send(type="show", run="r1", metrics=["loss"])
        await client.next("series")
        report(1, 1)
        await client.next("series")
        assert client.lines == {("norm", "worker:0"): ([0], [0]), ("loss", "worker:0"): ([0, 1], [0, 1])}
        client.seen.clear()
        client.send(type="show", run="r1", metrics=["norm", "loss"])
        await client.next("series")
        assert client.lines["norm", "worker:0"] == ([0, 1], [0, 2])
        frames = [frame for m in client.seen if m["type"] == "series" for frame in m["frames"]]
        assert [frame["metric"] for frame in frames] == ["norm"]  # the points of the loss have already been sent


class BusyHub(Hub):
    """A hub that raises ``error`` when runs are read, as with a store that is busy."""

    error: Exception | None = None

    def record(self, run_id: str) -> RunRecord:
        self._check()
        return super().record(run_id)

    def info(self, run_id: str) -> RunInfo:
        self._check()
        return super().info(run_id)

    def _check(self) -> None:
        if self.error is not None:
            raise self.error


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> BusyHub:
    monkeypatch.setattr(feed_module, "AGAIN_S", 0.0)
    return BusyHub()


async def test_a_subscription_outlives_a_busy_store(busy: BusyHub) -> None:
    feed(busy, events=slice(0, 6))
    async with client_of(MemoryFleet(busy)) as client:
        await client.next("runs")
        busy.error = Unavailable("The store is busy")
        client.send(type="subscribe", run="r1")
        assert await client.next("error") == {"type": "error", "message": "The store is busy", "run": "r1"}
        busy.error = None
        await client.next("series")
        assert client.lines["loss", "worker:1"] == ([0, 1, 2], [4, 3, 2])
        assert sum(m["type"] == "error" for m in client.seen) == 1


async def test_summaries_outlive_a_busy_store(busy: BusyHub) -> None:
    readers: set[int] = set()

    def info(run_id: str) -> RunInfo:
        readers.add(threading.get_ident())
        if busy.error is not None:
            loop.call_soon_threadsafe(refused.set)
        return BusyHub.info(busy, run_id)

    loop, refused = asyncio.get_running_loop(), asyncio.Event()
    busy.info = info  # type: ignore[method-assign]
    async with client_of(MemoryFleet(busy)) as client:
        await client.next("runs")
        feed(busy)
        busy.error = Unavailable("The store is busy")
        await asyncio.wait_for(refused.wait(), left_s())
        busy.error = None
        (run,) = (await client.next("runs"))["runs"]
        assert run["state"] == "succeeded"
    assert threading.get_ident() not in readers  # the store may block


async def test_a_refusal_does_not_end_a_newer_subscription(fleet: MemoryFleet) -> None:
    loop, reading, may_refuse = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def record(run_id: str) -> RunRecord:
        del fleet.hub.record  # only the first time
        loop.call_soon_threadsafe(reading.set)
        may_refuse.wait(left_s())
        raise NotFound("not yet")

    feed(fleet.hub)
    fleet.hub.record = record  # type: ignore[method-assign]
    async with client_of(fleet) as client:
        client.send(type="subscribe", run="r1")
        await asyncio.wait_for(reading.wait(), left_s())
        client.send(type="subscribe", run="r1")
        may_refuse.set()
        await client.next("series")
        assert not any(m["type"] == "error" for m in client.seen)


async def test_no_series_is_left_out_if_another_cannot_be_read(busy: BusyHub, monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = [Unavailable("The store is busy")]

    class BusyPlot(Plot):
        def since(self, version: int) -> tuple[int, list[bytes], bool]:
            if self._metric == "norm" and refusals:
                raise refusals.pop()
            return super().since(version)

    monkeypatch.setattr("jupyter_dtf.backend.records.shared_plots.Plot", BusyPlot)
    busy.add_run(run_info())
    busy.apply("r1", 0, encode_event(points("worker:0", 0, [{"loss": 1.0, "norm": 2.0}])))
    async with client_of(MemoryFleet(busy)) as client:
        client.send(type="subscribe", run="r1", metrics=["loss", "norm"])
        await client.next("series")
        assert client.lines == {("loss", "worker:0"): ([0], [1]), ("norm", "worker:0"): ([0], [2])}
