"""Twenty viewers of the same plots of a run with 20,000 points per second, compared with one viewer."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable

import msgspec

from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.handlers.feed import Feed
from jupyter_dtf.schema.api import ClusterInfo
from jupyter_dtf.schema.events import Point, Points, RunChanged, encode_event
from jupyter_dtf.schema.run import RunInfo, RunState

from .table import Row

RATE = 20_000  # points/s
SECONDS = 8
METRICS = ("loss", "accuracy", "val_loss", "val_accuracy")
TASKS = 2
CALLS = 50  # of ``report`` per event
VIEWERS = 20


class _NoClusters:
    """The part of a Fleet that a Feed needs, with a hub and no clusters."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def clusters(self) -> list[ClusterInfo]:
        return []

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        return lambda: None


def _events() -> list[bytes]:
    """Return the events of the whole run. They are created beforehand, because creating them is not the hub's work."""
    encode = msgspec.msgpack.encode
    found = [encode_event(RunChanged(time=0.0, state=RunState.LAUNCHING))]
    calls = RATE * SECONDS // len(METRICS) // TASKS
    for first in range(0, calls, CALLS):
        for task in range(TASKS):
            data = b"".join(
                encode(Point(step, step / 1000, dict.fromkeys(METRICS, step * 7919 % 1000 / 1000)))
                for step in range(first, first + CALLS)
            )
            points = Points(time=0.0, task=f"worker:{task}", first=first, count=CALLS, data=data)
            found.append(encode_event(points))
    return found


async def _taken(viewers: int, events: list[bytes]) -> float:
    """Return the points per second that the hub accepts if they are offered at ``RATE``."""
    hub = Hub()
    hub.add_run(RunInfo(id="run", name="run", cluster="none", created=time.time()))
    received = [0] * viewers

    def feed(viewer: int) -> Feed:
        async def take(data: bytes) -> None:
            received[viewer] += len(data)

        made = Feed(_NoClusters(hub), take)  # type: ignore[arg-type]
        made.receive(json.dumps({"type": "subscribe", "run": "run", "width": 600}))
        return made

    running = [asyncio.create_task(feed(viewer).run()) for viewer in range(viewers)]
    begin = time.perf_counter()
    for seq, data in enumerate(events):
        due = begin + seq / len(events) * SECONDS
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        hub.apply("run", seq, data)
    seconds = time.perf_counter() - begin
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    assert all(received)
    return RATE * SECONDS / max(seconds, SECONDS)


def measure() -> list[Row]:
    events = _events()
    one, many = (asyncio.run(_taken(viewers, events)) for viewers in (1, VIEWERS))
    return [
        Row(f"points/s to the hub with {VIEWERS} viewers of one plot", f"{many:,.0f}/s", f"{one:,.0f}/s with one",
            many / one, ">=", 0.95),
    ]  # fmt: skip
