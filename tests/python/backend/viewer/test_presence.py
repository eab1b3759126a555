"""Which clusters a viewer knows from their connection files, with real files of live processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from watchfiles import Change, awatch

from jupyter_dtf.backend.machine import paths
from jupyter_dtf.backend.viewer import connections, presence
from jupyter_dtf.backend.viewer import fleet as fleets
from jupyter_dtf.backend.viewer.fleet import Fleet
from jupyter_dtf.errors import Unavailable
from jupyter_dtf.schema.api import ClusterState
from jupyter_dtf.schema.run import RunInfo, RunState

from ...patience import left_s
from .test_connections import connection
from .test_fleet import run, viewer


def starting() -> connections.Connection:
    """Register a starting cluster whose process is this one."""
    mine = connection("kept")
    mine.state = ClusterState.STARTING
    connections.reserve(mine)
    return mine


def states(fleet: Fleet) -> list[tuple[str, RunState]]:
    return [(cluster.name, info.state) for cluster in fleet.clusters() for info in fleet.hub.runs()]


async def until_it_says(fleet: Fleet, message: str) -> None:
    changed = asyncio.Event()
    fleet.subscribe(changed.set)
    while fleet.cluster("kept").message != message:
        await asyncio.wait_for(changed.wait(), left_s())
        changed.clear()


def test_a_cluster_whose_file_is_damaged_for_a_while_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        mine = starting()
        async with viewer() as fleet:
            fleet.hub.add_run(RunInfo(id="r1", name="r1", cluster="kept", created=mine.created + 1).descriptor)
            path = connections.path_of("kept")
            good = path.read_bytes()
            for damage in (b"", good[:50], b"{{{{" + good[4:]):
                path.write_bytes(damage)
                fleet.refresh()
                assert states(fleet) == [("kept", RunState.PENDING)]
            mine.message = "read again"
            connections.write(mine)
            await until_it_says(fleet, "read again")
            path.unlink()
            fleet.refresh()
            assert fleet.clusters() == []  # now it is gone

    run(test)
    assert caplog.text.count("The connection file ") == 1


@pytest.mark.parametrize("where", ["file", "directory"])
def test_what_cannot_be_read_for_a_while_is_looked_at_again(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "AGAIN_S", 0.0)

    def refused(*_: object) -> connections.Connection:
        raise Unavailable("too many open files")

    async def test() -> None:
        mine = starting()
        async with viewer() as fleet:
            fleet.hub.add_run(RunInfo(id="r1", name="r1", cluster="kept", created=mine.created + 1).descriptor)
            fleet._is_over.set()  # the directory is no longer watched: only another look can find the change
            with monkeypatch.context() as broken:
                if where == "file":
                    broken.setattr(connections, "read", refused)
                else:
                    broken.setattr(paths, "connections_dir", refused)
                fleet.refresh()
                assert states(fleet) == [("kept", RunState.PENDING)]
            mine.message = "read again"
            connections.write(mine)
            await until_it_says(fleet, "read again")

    run(test)


def test_watching_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(fleets, "WATCH_AGAIN_S", 0.0)
    monkeypatch.setattr(fleets, "MOST_WATCH_AGAIN_S", 0.0)

    tries: list[str] = []

    def refused(*args: Any, **more: Any) -> AsyncGenerator[set[tuple[Change, str]], None]:
        tries.append(args[0])
        if len(tries) < 4:
            raise OSError("OS file watch limit reached")
        watched.set()
        return awatch(*args, **more)

    watched = asyncio.Event()
    monkeypatch.setattr(fleets, "awatch", refused)

    async def test() -> None:
        async with viewer() as fleet:
            await asyncio.wait_for(watched.wait(), left_s())
            mine = starting()
            changed = asyncio.Event()
            fleet.subscribe(changed.set)
            while not fleet.clusters():
                await asyncio.wait_for(changed.wait(), left_s())
                changed.clear()
            mine.message = "watched again"
            connections.write(mine)
            await until_it_says(fleet, "watched again")
        assert len(tries) == 4

    run(test)
    assert caplog.text.count("cannot be watched, and is read at intervals instead") == 1


def test_a_directory_that_cannot_be_watched_is_read_from_time_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "MOST_WATCH_AGAIN_S", 0.0)

    def refused(*_: object, **__: object) -> None:
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr(fleets, "awatch", refused)

    async def test() -> None:
        async with viewer() as fleet:
            mine = starting()
            fleet.refresh()
            mine.message = "read"
            connections.write(mine)
            await until_it_says(fleet, "read")

    run(test)
