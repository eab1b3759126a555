"""Which clusters a viewer knows, by their files. Real files of processes that live."""

from __future__ import annotations

import asyncio

import pytest

from jupyter_dtf.backend.machine import paths
from jupyter_dtf.backend.viewer import connections, presence
from jupyter_dtf.backend.viewer.fleet import Fleet
from jupyter_dtf.errors import Unavailable
from jupyter_dtf.schema.api import ClusterState
from jupyter_dtf.schema.run import RunInfo, RunState

from ...patience import left_s
from .test_connections import connection
from .test_fleet import run, viewer


def starting() -> connections.Connection:
    """A cluster that is starting, whose process is this one."""
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
    assert caplog.text.count("must be readable, as jupyter_dtf wrote it") == 1


@pytest.mark.parametrize("where", ["file", "directory"])
def test_what_cannot_be_read_for_a_while_is_looked_at_again(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "AGAIN_S", 0.0)

    def refused(*_: object) -> connections.Connection:
        raise Unavailable("too many open files")

    async def test() -> None:
        mine = starting()
        async with viewer() as fleet:
            fleet.hub.add_run(RunInfo(id="r1", name="r1", cluster="kept", created=mine.created + 1).descriptor)
            fleet._is_over.set()  # the directory is not watched any more: only another look can tell
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
