"""A warm process that does not start is restarted if that may help, but not if one of its imports fails.

The process is a stand-in that follows the test's orders; it is started and watched like the real one.
"""

from __future__ import annotations

import asyncio
import errno
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jupyter_dtf.backend.host import warm_keeper
from jupyter_dtf.backend.host.warm_client import start_warm
from jupyter_dtf.backend.host.warm_keeper import WarmKeeper
from jupyter_dtf.backend.machine import children
from jupyter_dtf.backend.machine.oom import OomWatch
from jupyter_dtf.errors import Unavailable

from ...patience import left_s

STAND_IN = """
import json, os, signal, socket, sys
from pathlib import Path

orders = Path(sys.argv[3]).with_suffix(".orders")
order, *rest = orders.read_text().split()
orders.write_text(" ".join(rest))
connection, _ = socket.socket(fileno=int(sys.argv[1])).accept()
if order == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if order == "exits":
    sys.exit(3)
ready = {"op": "ready", "unguarded": ""}
failed = {"op": "failed", "message": order, "may_pass": order == "full"}
connection.send(json.dumps(ready if order == "ready" else failed).encode())
while connection.recv(1 << 16):
    pass
"""


class Kept:
    """A keeper, and what it has reported."""

    def __init__(self, directory: Path, orders: str) -> None:
        directory.mkdir()
        self.orders = directory.with_suffix(".orders")
        self.orders.write_text(orders)
        self.lost: list[str] = []
        self._changed = asyncio.Event()
        self.keeper = WarmKeeper(
            directory,
            directory.with_name("shared"),
            OomWatch(),
            on_message=lambda message: None,
            on_lost=self.lost.append,
            on_change=self._changed.set,
        )

    async def until(self, condition: Callable[[], Any]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()


@asynccontextmanager
async def kept(directory: Path, orders: str) -> AsyncIterator[Kept]:
    made = Kept(directory, orders)
    made.keeper.start()
    try:
        yield made
    finally:
        made.keeper.end()
        await made.keeper.close()
        if (started := made.keeper._lifeline) is not None:
            await asyncio.to_thread(started.wait)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "command", lambda _module, *arguments: [sys.executable, "-c", STAND_IN, *arguments])
    monkeypatch.setattr(warm_keeper, "RETRY_S", 0.01)


def run(test: Any) -> None:
    asyncio.run(asyncio.wait_for(test(), left_s()))


def failing(monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """Make the first starts fail because the disk is full. Return a list that holds the number of tries."""
    tries, start = [0], start_warm

    def start_later(directory: Path, shared: Path) -> Any:
        tries[0] += 1
        if tries[0] <= times:
            raise OSError(errno.ENOSPC, "No space left on device")
        return start(directory, shared)

    monkeypatch.setattr(warm_keeper, "start_warm", start_later)
    return tries


@pytest.mark.parametrize("orders", ["killed killed ready", "full full ready"])
def test_it_is_started_again_after_what_may_pass(tmp_path: Path, orders: str) -> None:
    async def test() -> None:
        async with kept(tmp_path / "0d7f", orders) as there:
            await there.until(lambda: there.keeper.is_ready)
            assert there.orders.read_text() == ""
            assert len(there.lost) == 2
            await there.keeper.usable(lambda: True)

    run(test)


def test_it_is_started_again_when_the_disk_has_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = failing(monkeypatch, 3)

    async def test() -> None:
        async with kept(tmp_path / "0d7f", "ready") as there:
            await there.until(lambda: there.keeper.is_ready)
            assert (tries, there.keeper.failure) == ([4], "")

    run(test)


@pytest.mark.parametrize(
    ("order", "why"),
    [("exits", "exited with status 3 while it imported"), ("broken", "could not be imported .* broken")],
)
def test_a_fault_of_what_it_imports_is_final(tmp_path: Path, order: str, why: str) -> None:
    async def test() -> None:
        async with kept(tmp_path / "0d7f", f"{order} ready") as there:
            await there.until(lambda: there.keeper.failure)
            for _ in range(2):
                with pytest.raises(Unavailable, match=why):
                    await there.keeper.usable(lambda: True)
            assert there.orders.read_text() == "ready"  # this order was not read

    run(test)


def test_a_run_does_not_wait_for_the_next_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_keeper, "RETRY_S", 1e6)
    tries = failing(monkeypatch, 2)

    async def test() -> None:
        async with kept(tmp_path / "0d7f", "ready") as there:
            await there.until(lambda: there.keeper.failure)
            assert tries == [1]
            with pytest.raises(Unavailable, match="could not be started: .*No space left on device"):
                await there.keeper.usable(lambda: True)  # after a try of its own
            assert tries == [2]
            await there.keeper.usable(lambda: True)
            assert (tries, there.keeper.is_ready) == ([3], True)

    run(test)
