"""Whatever is sent to the WebSocket, it stays open or gives a reason for closing, and the server does not grow."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from jupyter_dtf.backend.records.hub import Hub
from jupyter_dtf.handlers.feed import MAX_ERRORS, MAX_SUBSCRIPTIONS
from jupyter_dtf.handlers.socket import MAX_MESSAGE_BYTES
from jupyter_dtf.schema.run import RunState

from ..patience import left_s
from .fleet import MemoryFleet
from .test_runs import feed
from .test_socket import closed

Connect = Callable[[], Awaitable[Any]]

RUNS = st.sampled_from(["r1", "r2", "", "../r1", "\x00", "r" * 5000]) | st.text()
NUMBERS = st.integers() | st.floats() | st.sampled_from([-1, 0, 1, 600, 2**31, 2**63, 10**400])
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
ASKED = st.fixed_dictionaries(
    {"type": st.sampled_from(["subscribe", "unsubscribe", "subscribe", "events", ""]), "run": RUNS | JSON},
    optional={
        "after": NUMBERS | JSON,
        "width": NUMBERS | JSON,
        "x": st.sampled_from(["step", "time"]) | JSON,
        "y": JSON,
    },
)
MESSAGES = (
    ASKED.map(json.dumps)
    | JSON.map(json.dumps)
    | st.text(max_size=500)
    | st.binary(max_size=500)
    | st.integers(1, 900).map(lambda depth: "[" * depth)
    | st.integers(0, MAX_MESSAGE_BYTES).map(lambda size: "x" * size)
)


def drawn(strategy: st.SearchStrategy[list[Any]], examples: int) -> list[list[Any]]:
    """Return hypothesis's examples for a strategy, to be sent from an event loop that hypothesis does not run."""
    found: list[list[Any]] = []

    @seed(7)
    @settings(max_examples=examples, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def keep(value: list[Any]) -> None:
        found.append(value)

    keep()
    return found


async def send(socket: Any, message: str | bytes) -> None:
    text = message.encode("utf-8", "surrogatepass") if isinstance(message, str) else message
    await socket.write_message(text, binary=isinstance(message, bytes))


async def answers_still(socket: Any) -> None:
    """Check that a subscription is still answered, whatever was sent before."""
    asked = json.dumps({"type": "subscribe", "run": "r1"})
    await socket.write_message(asked)
    while True:
        data = await asyncio.wait_for(socket.read_message(), left_s())
        assert data is not None, (socket.close_code, socket.close_reason)
        message = json.loads(data)
        if message["type"] == "series" and message["run"] == "r1":
            return
        if message["type"] == "error" and f"at most {MAX_SUBSCRIPTIONS} subscriptions" in message["message"]:
            await socket.write_message(asked)  # those to runs that do not exist have been dropped by now


async def test_no_message_ends_the_stream(
    hub: Hub, fleet: MemoryFleet, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    feed(hub, end=RunState.RUNNING)
    storms = drawn(st.lists(MESSAGES, min_size=1, max_size=20), 60)
    sent: set[str] = set()
    for messages in storms:
        socket = await connect()
        for message in messages:
            await send(socket, message)
            sent.add(type(message).__name__)
        await answers_still(socket)
        socket.close()
    assert sent == {"str", "bytes"}
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("size", [MAX_MESSAGE_BYTES + 1, 9 << 20])
async def test_a_message_that_is_too_long_closes_the_stream_with_a_reason(
    fleet: MemoryFleet, connect: Connect, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    socket = await connect()
    await socket.write_message("x" * size)
    assert await closed(socket) == 1009
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_every_message_that_cannot_be_followed_is_answered(fleet: MemoryFleet, connect: Connect) -> None:
    """This holds for any number at once: while too many answers wait, no further message is read. None is dropped."""
    socket = await connect()
    count = 10 * MAX_ERRORS
    for number in range(count):
        await socket.write_message(json.dumps({"type": "subscribe", "run": f"r-{number}", "width": -number}))
    answered = 0
    while answered < count:
        message = json.loads(await asyncio.wait_for(socket.read_message(), left_s()))
        answered += message["type"] == "error"


async def test_a_storm_of_subscriptions_leaves_nothing_behind(hub: Hub, fleet: MemoryFleet, connect: Connect) -> None:
    """Nothing is queued while the client does not read: what to send is decided only when the client reads."""
    feed(hub, end=RunState.RUNNING)
    process = psutil.Process()

    async def storm() -> None:
        left = asyncio.Event()
        fleet.on_leave = left.set
        socket = await connect()
        for number in range(3000):
            run = f"many-{number}" if number % 3 else "r1"
            asked = (
                {"type": "subscribe", "run": run, "width": 100 + number} if number % 2 else {"type": "no", "run": run}
            )
            await socket.write_message(json.dumps(asked))
            if number % 5 == 0:
                await socket.write_message(json.dumps({"type": "unsubscribe", "run": run}))
        await answers_still(socket)
        socket.close()
        await asyncio.wait_for(left.wait(), left_s())

    await storm()  # the first one allocates memory that the others reuse
    gc.collect()
    before, objects = process.memory_info().rss, len(gc.get_objects())
    for _ in range(5):
        await storm()
    gc.collect()
    assert fleet.subscribers == 0
    assert len(gc.get_objects()) - objects < 5000
    assert process.memory_info().rss - before < 16 << 20
